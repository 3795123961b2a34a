# Target docs: what Doxygen finds in the code, then the pages and the reference of the code by Sphinx,
# then a check of all links. Part of CMakeLists.txt.
#   <build>/docs/made      what programs make for pages: the data of explorers
#   <build>/docs/xml       what Doxygen finds in the code
#   <build>/docs/html      the site; the reference is in its folder reference
#   <build>/docs/next      the site while it is built: it takes the place of html when it is right
set(fa_docs_out "${CMAKE_CURRENT_BINARY_DIR}")
set(fa_docs_html "${fa_docs_out}/html")
set(fa_docs_next "${fa_docs_out}/next")
set(fa_docs_made "${fa_docs_out}/made")
set(fa_docs_xml "${fa_docs_out}/xml")
set(fa_docs_site "${CMAKE_CURRENT_SOURCE_DIR}/site")

option(FA_DOCS_PARAMS "Target docs: warn about parameters and results without a description" OFF)
set(fa_docs_params NO)
if(FA_DOCS_PARAMS)
  set(fa_docs_params YES)
endif()

# ---- Doxygen: what the code says of itself.
set(fa_docs_input "")
foreach(directory IN LISTS FA_LESSONS ITEMS common)
  if(IS_DIRECTORY "${fa_docs_root}/${directory}")
    string(APPEND fa_docs_input "INPUT += \"${fa_docs_root}/${directory}\"\n")
  endif()
endforeach()
# A command inside a quoted value of the Doxyfile: its own quotation marks are escaped.
set(fa_docs_code_filter "awk -f \\\"${CMAKE_CURRENT_SOURCE_DIR}/site/cpp2dox.awk\\\"")

# Tags that not all of the versions know.
set(fa_docs_versioned "")
if(NOT DOXYGEN_VERSION VERSION_LESS 1.9.2)
  # A comment may name only the parameters that need words.
  string(APPEND fa_docs_versioned "WARN_IF_INCOMPLETE_DOC = ${fa_docs_params}\n")
endif()
if(NOT DOXYGEN_VERSION VERSION_LESS 1.9.5)
  string(APPEND fa_docs_versioned "WARN_IF_UNDOC_ENUM_VAL = YES\n")
endif()
configure_file(site/Doxyfile.in "${fa_docs_out}/Doxyfile" @ONLY)
add_custom_target(docs_reference
  COMMAND "${CMAKE_COMMAND}" -E rm -rf "${fa_docs_next}" "${fa_docs_xml}"  # of the last build
  COMMAND "${DOXYGEN_EXECUTABLE}" "${fa_docs_out}/Doxyfile"
  WORKING_DIRECTORY "${fa_docs_root}" COMMENT "The comments of the code" USES_TERMINAL VERBATIM)

# ---- What programs make for pages: data of the explorers. On a fresh checkout lesson 03 is compiled
# for the tile stepper's.
set(fa_docs_data "")
if(TARGET 03_online_softmax AND EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/explorers/data.py")
  set(made "${fa_docs_made}/docs/explorers")
  file(GLOB records CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/results/h200_0[45]_*.json")
  set(fa_docs_data "${made}/roofline_data.js" "${made}/stepper_data.js")
  add_custom_command(OUTPUT ${fa_docs_data}
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${made}"
    COMMAND sh -c "exec \"$@\" >\"$0/steps.txt\"" "${made}" "$<TARGET_FILE:03_online_softmax>"
            --section steps --save "${made}"
    COMMAND ${fa_docs_python} docs.explorers.data --made "${made}"
    WORKING_DIRECTORY "${fa_docs_root}"
    DEPENDS 03_online_softmax "${CMAKE_CURRENT_SOURCE_DIR}/explorers/data.py" ${records}
    COMMENT "Numbers of the explorers" VERBATIM)
endif()
add_custom_target(docs_data DEPENDS ${fa_docs_data})

# ---- Formulas are MathML; a font for it goes into the site (Debian package fonts-stix).
find_file(FA_MATH_FONT STIXMath-Regular.otf PATHS /usr/share/fonts/opentype/stix-word
          NO_DEFAULT_PATH
          DOC "A font for formulas")
if(NOT FA_MATH_FONT)
  message(STATUS
          "docs: fonts-stix is not installed; the browser chooses a font for the site's formulas")
endif()

# ---- Sphinx: the pages. fa_docs_build(TARGET BUILDER DIRECTORY BOOK option...): BOOK is "" for the
# site, else "course" or "teaching", whose builders share the pages as they were read.
function(fa_docs_build TARGET BUILDER DIRECTORY BOOK)
  set(read "${BUILDER}")
  if(BOOK)
    set(read "${BOOK}")
  endif()
  add_custom_target(${TARGET}
    COMMAND "${CMAKE_COMMAND}" -E env "COURSE_MATH_FONT=$<$<BOOL:${FA_MATH_FONT}>:${FA_MATH_FONT}>"
            "COURSE_BOOK=${BOOK}"
            "${fa_docs_venv_python}" -B -m sphinx --jobs auto --fail-on-warning --keep-going
            --conf-dir "${fa_docs_site}" --doctree-dir "${fa_docs_out}/doctrees_${read}"
            --builder ${BUILDER}
            --define "course_xml=${fa_docs_xml}" --define "course_made=${fa_docs_made}" ${ARGN}
            "${fa_docs_root}" "${DIRECTORY}"
    COMMENT "The pages, by Sphinx: ${BUILDER} ${BOOK}" WORKING_DIRECTORY "${fa_docs_root}"
    USES_TERMINAL VERBATIM)
  add_dependencies(${TARGET} docs_venv)
endfunction()
fa_docs_build(docs_pages html "${fa_docs_next}" "" --fresh-env)
add_dependencies(docs_pages docs_reference docs_data)

# ---- On demand: the course as a book, and a booklet for teachers and contributors. What both forms
# of a book are made from is read once.
add_custom_target(docs_pdf)
function(fa_docs_book BOOK FRONT)
  set(out "${fa_docs_out}/${BOOK}")
  fa_docs_build(docs_read_${BOOK} dummy "${out}/dummy" ${BOOK} --fresh-env)
  fa_docs_build(docs_single_${BOOK} singlehtml "${out}/single" ${BOOK})
  add_custom_target(docs_pdf_${BOOK}
    COMMAND "${fa_docs_venv_python}" -B -m docs.site.print_pdf "${out}/single/${FRONT}.html"
            "${fa_docs_out}/flash-attention-${BOOK}.pdf"
    WORKING_DIRECTORY "${fa_docs_root}" COMMENT "The book, printed by Chromium: ${BOOK}"
    USES_TERMINAL VERBATIM)
  add_dependencies(docs_single_${BOOK} docs_read_${BOOK})
  add_dependencies(docs_pdf_${BOOK} docs_single_${BOOK})
  add_dependencies(docs_pdf docs_pdf_${BOOK})
endfunction()
fa_docs_book(course README)
fa_docs_build(docs_epub epub "${fa_docs_out}/course/epub" course)
add_custom_command(TARGET docs_epub POST_BUILD
  COMMAND "${CMAKE_COMMAND}" -E copy "${fa_docs_out}/course/epub/flash-attention-course.epub"
          "${fa_docs_out}"
  COMMAND "${fa_docs_venv_python}" -B -m docs.site.check epub
          --epub "${fa_docs_out}/flash-attention-course.epub"
  WORKING_DIRECTORY "${fa_docs_root}" VERBATIM)
add_dependencies(docs_epub docs_read_course)
if(EXISTS "${fa_docs_root}/common/classroom/teaching.md")
  fa_docs_book(teaching common/classroom/teaching)
endif()
fa_docs_build(docs_external_links linkcheck "${fa_docs_out}/linkcheck" "" --fresh-env)
add_dependencies(docs_external_links docs_data)

add_custom_target(docs
  COMMAND "${fa_docs_venv_python}" -B -m docs.site.check site --root "${fa_docs_root}" --site "${fa_docs_next}"
  COMMAND sh -c "rm -rf \"$0.old\"; mv -f \"$0\" \"$0.old\" 2>/dev/null; mv \"$1\" \"$0\" && rm -rf \"$0.old\""
          "${fa_docs_html}" "${fa_docs_next}"
  WORKING_DIRECTORY "${fa_docs_root}" COMMENT "Checking the site: ${fa_docs_html}/index.html"
  USES_TERMINAL VERBATIM)
add_dependencies(docs docs_pages)
