# Target docs: the reference of the code by Doxygen, then the pages by Sphinx. Part of
# CMakeLists.txt.
#   <build>/docs/made      what programs make for pages: the data of explorers
#   <build>/docs/html      the site; the reference is in its folder reference
#   <build>/docs/next      the site while it is built: it takes the place of html when it is right
#   <build>/docs/tags.xml  the names in the reference, for links
set(fa_docs_out "${CMAKE_CURRENT_BINARY_DIR}")
set(fa_docs_next "${fa_docs_out}/next")
set(fa_docs_made "${fa_docs_out}/made")
set(fa_docs_site "${CMAKE_CURRENT_SOURCE_DIR}/site")

# ---- Doxygen. Its warnings fail the target, except that a field or a member type has no comment: a
# group of trivial ones needs one comment, or none.
set(fa_docs_input "")
foreach(directory IN LISTS FA_LESSONS ITEMS common)
  if(IS_DIRECTORY "${fa_docs_root}/${directory}")
    string(APPEND fa_docs_input "INPUT += \"${fa_docs_root}/${directory}\"\n")
  endif()
endforeach()
# Blanks the marks of listings, `//! [tag]`, which Doxygen would take for a description.
set(fa_docs_code_filter "sed 's,^ *//! .*,,'")
# Tags that not all of the versions know.
set(fa_docs_versioned "")
if(NOT DOXYGEN_VERSION VERSION_LESS 1.9.2)
  # A comment may name only the parameters that need words.
  string(APPEND fa_docs_versioned "WARN_IF_INCOMPLETE_DOC = NO\n")
endif()
if(NOT DOXYGEN_VERSION VERSION_LESS 1.9.5)
  string(APPEND fa_docs_versioned "WARN_IF_UNDOC_ENUM_VAL = NO\nHTML_COLORSTYLE = LIGHT\n")
endif()
configure_file(site/Doxyfile.in "${fa_docs_out}/Doxyfile" @ONLY)
set(trivial "Member .* \\((variable|typedef)\\) of (struct|class) .* is not documented")
add_custom_target(docs_reference
  COMMAND "${CMAKE_COMMAND}" -E rm -rf "${fa_docs_next}"  # of the last build
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${fa_docs_next}"
  COMMAND "${DOXYGEN_EXECUTABLE}" "${fa_docs_out}/Doxyfile"
  COMMAND sh -c "! grep -vE \"$0\" \"$1\"" "${trivial}" "${fa_docs_out}/warnings.txt"
  WORKING_DIRECTORY "${fa_docs_root}" COMMENT "The reference of the code" USES_TERMINAL VERBATIM)

# ---- What programs make for pages: data of the explorers. On a fresh checkout lesson 03 is compiled
# for the tile stepper's.
set(fa_docs_data "")
if(TARGET 03_online_softmax AND EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/explorers/data.py")
  set(made "${fa_docs_made}/docs/explorers")
  file(GLOB records CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/results/h200_0[45]_*.json")
  set(fa_docs_data "${made}/alice_data.js" "${made}/roofline_data.js" "${made}/stepper_data.js")
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

# ---- Sphinx: the pages, as the site and as books, and a visit of all links to other sites.
# A book has all files of its folder, so none may be left of an earlier build.
function(fa_docs_build TARGET BUILDER DIRECTORY)
  set(old "${DIRECTORY}")
  if(BUILDER STREQUAL "html")
    set(old "${DIRECTORY}.old")  # the reference is already there
  endif()
  add_custom_target(${TARGET}
    COMMAND "${CMAKE_COMMAND}" -E rm -rf "${old}"
    COMMAND "${CMAKE_COMMAND}" -E env "COURSE_MATH_FONT=$<$<BOOL:${FA_MATH_FONT}>:${FA_MATH_FONT}>"
            "${fa_docs_venv_python}" -B -m sphinx --jobs auto --fail-on-warning --keep-going
            --fresh-env --conf-dir "${fa_docs_site}"
            --doctree-dir "${fa_docs_out}/doctrees_${BUILDER}" --builder ${BUILDER}
            --define "course_tags=${fa_docs_out}/tags.xml" --define "course_made=${fa_docs_made}"
            "${fa_docs_root}" "${DIRECTORY}"
    COMMENT "The pages, by Sphinx: ${BUILDER}" WORKING_DIRECTORY "${fa_docs_root}"
    USES_TERMINAL VERBATIM)
  add_dependencies(${TARGET} docs_venv docs_data)
endfunction()
fa_docs_build(docs_pages html "${fa_docs_next}")
add_dependencies(docs_pages docs_reference)
fa_docs_build(docs_epub epub "${fa_docs_out}/epub")
fa_docs_build(docs_single singlehtml "${fa_docs_out}/pdf")
add_custom_target(docs_pdf
  COMMAND "${fa_docs_venv_python}" -B -m docs.site.browser "${fa_docs_out}/pdf/README.html"
          "${fa_docs_out}/pdf/flash-attention.pdf"
  WORKING_DIRECTORY "${fa_docs_root}" COMMENT "The book, printed by Chromium" VERBATIM)
add_dependencies(docs_pdf docs_single)
fa_docs_build(docs_external_links linkcheck "${fa_docs_out}/linkcheck")

add_custom_target(docs
  COMMAND sh -c "rm -rf \"$0\" && mv \"$1\" \"$0\"" "${fa_docs_out}/html" "${fa_docs_next}"
  COMMENT "The site: ${fa_docs_out}/html/index.html" VERBATIM)
add_dependencies(docs docs_pages)
