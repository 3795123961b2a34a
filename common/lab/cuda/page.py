"""The report as one page of HTML."""


def write(path, source, folder, result, end):
    raise NotImplementedError
