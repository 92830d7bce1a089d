# an ASCII PGM with its greys mapped to the few values of INK (comma-separated, for dark to light)
BEGIN { levels = split(ink, value, ",") }
NR <= 3 { print; next }
{
  line = ""
  for (i = 1; i <= NF; i++) line = line (i > 1 ? " " : "") value[int($i * levels / 256) + 1]
  print line
}
