# Doxygen's input filter for C++ and CUDA: blanks the marks of listings, `//! [tag]`, which Doxygen would take for the
# description of what follows. Lines keep their numbers.
/^[ \t]*\/\/![ \t]*\[[^]]+\][ \t]*$/ { $0 = "" }
{ print }
