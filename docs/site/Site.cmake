# Target docs: writes build/docs/Doxyfile and what it needs, then runs Doxygen. Part of
# CMakeLists.txt.
set(fa_docs_out "${CMAKE_CURRENT_BINARY_DIR}")
set(fa_docs_html "${fa_docs_out}/html")
set(fa_docs_theme "${CMAKE_CURRENT_SOURCE_DIR}/site/theme")
set(fa_docs_site "${fa_docs_out}/site.txt")

option(FA_DOCS_PARAMS "Target docs: warn about parameters and results without a description" OFF)
set(fa_docs_params NO)
if(FA_DOCS_PARAMS)
  set(fa_docs_params YES)
endif()

# What is on the site, once for Doxygen and once for the filter.
set(fa_docs_input "INPUT += \"${CMAKE_CURRENT_SOURCE_DIR}/site/namespaces.dox\"\n")
set(site "root ${fa_docs_root}\nhtml ${fa_docs_html}\n")
foreach(page IN LISTS fa_docs_pages)
  string(APPEND fa_docs_input "INPUT += \"${fa_docs_root}/${page}\"\n")
  string(APPEND site "page ${page}\n")
endforeach()
foreach(directory IN LISTS FA_LESSONS ITEMS common)
  if(IS_DIRECTORY "${fa_docs_root}/${directory}")
    string(APPEND fa_docs_input "INPUT += \"${fa_docs_root}/${directory}\"\n")
    string(APPEND site "sources ${directory}\n")
  endif()
endforeach()
file(WRITE "${fa_docs_site}" "${site}")
list(GET fa_docs_pages 0 front)
set(fa_docs_front "${fa_docs_root}/${front}")

# Commands inside a quoted value of the Doxyfile: their own quotation marks are escaped. Doxygen runs in the root, where
# Python finds the modules.
set(python "\\\"${Python3_EXECUTABLE}\\\" -B -m")
set(fa_docs_page_filter "${python} docs.site.gfm2dox --site \\\"${fa_docs_site}\\\"")
set(fa_docs_code_filter "${python} docs.site.cpp2dox")

# The theme: doxygen-awesome-css with its switch for dark mode where it is installed (Debian package
# of that name), else Doxygen's own.
find_path(FA_DOXYGEN_AWESOME doxygen-awesome-sidebar-only.css PATHS /usr/share/doxygen-awesome-css
          DOC "Directory of doxygen-awesome-css" NO_DEFAULT_PATH)
set(fa_docs_styles "")
set(fa_docs_scripts "")
set(head "")
if(FA_DOXYGEN_AWESOME)
  foreach(file IN ITEMS doxygen-awesome.css doxygen-awesome-sidebar-only.css
                        doxygen-awesome-sidebar-only-darkmode-toggle.css)
    string(APPEND fa_docs_styles "\"${FA_DOXYGEN_AWESOME}/${file}\" ")
  endforeach()
  set(fa_docs_scripts "\"${FA_DOXYGEN_AWESOME}/doxygen-awesome-darkmode-toggle.js\"")
  string(APPEND head "<script src=\"$relpath^doxygen-awesome-darkmode-toggle.js\"></script>\n"
                     "<script>DoxygenAwesomeDarkModeToggle.init()</script>\n")
endif()
string(APPEND fa_docs_styles "\"${fa_docs_theme}/site.css\"")
set(fa_docs_stepper "${CMAKE_CURRENT_SOURCE_DIR}/stepper")
if("docs/stepper/README.md" IN_LIST fa_docs_pages)
  string(APPEND fa_docs_scripts " \"${fa_docs_stepper}/stepper.css\" \"${fa_docs_stepper}/stepper.js\"")
endif()

# Header and layout begin as this Doxygen's own: committed copies would fit one version only.
function(fa_docs_write)
  execute_process(COMMAND "${DOXYGEN_EXECUTABLE}" ${ARGN} WORKING_DIRECTORY "${fa_docs_out}/theme"
                  RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(failed)
    message(FATAL_ERROR "docs: '${DOXYGEN_EXECUTABLE} ${ARGN}' failed with status ${failed}.")
  endif()
endfunction()
file(MAKE_DIRECTORY "${fa_docs_out}/theme")
fa_docs_write(-w html header.html footer.html style.css)
fa_docs_write(-l layout.xml)
file(READ "${fa_docs_out}/theme/header.html" header)
string(REPLACE "</head>" "${head}</head>" header "${header}")
file(WRITE "${fa_docs_out}/theme/header.html" "${header}")
file(READ "${fa_docs_out}/theme/layout.xml" layout)
string(REPLACE "<tab type=\"pages\" visible=\"yes\" title=\"\""
               "<tab type=\"pages\" visible=\"yes\" title=\"Lessons\"" layout "${layout}")
file(WRITE "${fa_docs_out}/theme/layout.xml" "${layout}")

# Formulas: MathJax 2 from the system (Debian package libjs-mathjax) goes into the site, so that
# they render with no network. Only the TeX input, the SVG output and its main font: 2 MB of 54.
find_path(FA_MATHJAX jax/output/SVG/fonts/TeX/fontdata.js PATHS /usr/share/javascript/mathjax
          DOC "Directory of MathJax 2" NO_DEFAULT_PATH)
set(fa_docs_versioned "MATHJAX_FORMAT = SVG\n")
if(FA_MATHJAX)
  string(APPEND fa_docs_versioned "MATHJAX_RELPATH = mathjax/\n")
  foreach(part IN ITEMS MathJax.js extensions jax/element jax/input/TeX jax/output/SVG/jax.js
                        jax/output/SVG/config.js jax/output/SVG/autoload jax/output/SVG/fonts/TeX)
    get_filename_component(parent "${part}" DIRECTORY)
    file(COPY "${FA_MATHJAX}/${part}" DESTINATION "${fa_docs_out}/mathjax/${parent}")
  endforeach()
  set(math COMMAND "${CMAKE_COMMAND}" -E copy_directory
                   "${fa_docs_out}/mathjax" "${fa_docs_html}/mathjax")
else()
  message(STATUS "docs: libjs-mathjax is not installed, so the site's formulas will need a network")
  set(math COMMAND "${CMAKE_COMMAND}" -E echo
      "Note: libjs-mathjax is not installed, so a script from the network draws the formulas.")
endif()

# Tags that not all of the versions know.
if(NOT DOXYGEN_VERSION VERSION_LESS 1.9.2)
  # A comment may name only the parameters that need words.
  string(APPEND fa_docs_versioned "WARN_IF_INCOMPLETE_DOC = ${fa_docs_params}\n")
  string(APPEND fa_docs_versioned "FULL_SIDEBAR = NO\nMATHJAX_VERSION = MathJax_2\n")
endif()
if(NOT DOXYGEN_VERSION VERSION_LESS 1.9.5)
  if(FA_DOXYGEN_AWESOME)
    string(APPEND fa_docs_versioned "HTML_COLORSTYLE = LIGHT  # the theme does dark mode\n")
  endif()
  string(APPEND fa_docs_versioned "WARN_IF_UNDOC_ENUM_VAL = YES\n")
endif()
configure_file(site/Doxyfile.in "${fa_docs_out}/Doxyfile" @ONLY)

# The tile stepper's numbers. They are written while Doxygen runs: on a fresh checkout lesson 03 is compiled for them.
set(stepper "")
if("docs/stepper/README.md" IN_LIST fa_docs_pages)
  set(steps "${fa_docs_out}/stepper")
  add_custom_command(OUTPUT "${steps}/steps.json" "${steps}/stepper_data.js"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${steps}"
    COMMAND 03_online_softmax --section steps --save "${steps}"
    COMMAND ${fa_docs_python} docs.stepper.page data "${steps}/steps.json" "${steps}/stepper_data.js"
    WORKING_DIRECTORY "${fa_docs_root}"
    DEPENDS "${fa_docs_stepper}/page.py" COMMENT "Numbers of the tile stepper" VERBATIM)
  add_custom_target(docs_steps DEPENDS "${steps}/stepper_data.js")
  set(stepper COMMAND "${CMAKE_COMMAND}" -E copy "${steps}/steps.json" "${steps}/stepper_data.js" "${fa_docs_html}")
endif()

add_custom_target(docs_pages
  COMMAND "${CMAKE_COMMAND}" -E rm -rf "${fa_docs_html}"
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${fa_docs_html}"
  ${math}
  COMMAND "${DOXYGEN_EXECUTABLE}" "${fa_docs_out}/Doxyfile"
  WORKING_DIRECTORY "${fa_docs_root}" COMMENT "Writing the site: ${fa_docs_html}/index.html"
  USES_TERMINAL VERBATIM)
add_custom_target(docs
  ${stepper}
  COMMAND ${fa_docs_python} docs.site.check_site --site "${fa_docs_site}"
  WORKING_DIRECTORY "${fa_docs_root}" COMMENT "Checking the site" USES_TERMINAL VERBATIM)
add_dependencies(docs docs_pages)
if(TARGET docs_steps)
  add_dependencies(docs docs_steps)
endif()
