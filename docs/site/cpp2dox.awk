# Doxygen's input filter for C++ and CUDA. Lines keep their numbers.
#
# It blanks the marks of listings, `//! [tag]`: Doxygen would take each for the description of what follows. To a
# source file it adds @file: Doxygen links from a header to the file in which a function is defined even when it writes
# no page for that file. With @file it asks for a description of each macro in the file, so those without one are
# called local.
/^[ \t]*\/\/![ \t]*\[[^]]+\][ \t]*$/ { $0 = "" }
{ print }
/^[ \t]*#[ \t]*define[ \t]/ && before !~ /^[ \t]*\/\/\// {
  name = $0
  sub(/^[ \t]*#[ \t]*define[ \t]+/, "", name)
  sub(/[^A-Za-z0-9_].*/, "", name)
  macros = macros "/** @def " name "\nA macro of this file only. */\n"
}
{ before = $0 }
END { if (FILENAME ~ /\.(cpp|cu)$/) printf "/** @file */\n%s", macros }
