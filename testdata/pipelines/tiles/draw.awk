# KIND WIDTH HEIGHT -> an ASCII PGM of that pattern
{
  kind = $1; w = $2; h = $3
  print "P2"; print w, h; print 255
  for (y = 0; y < h; y++) {
    line = ""
    for (x = 0; x < w; x++) {
      dx = 2 * x - w + 1; dy = 2 * y - h + 1
      if (kind == "ramp") v = int(x * 255 / (w - 1))
      else if (kind == "board") v = (x + y) % 2 * 255
      else v = (dx * dx + dy * dy) * 7 % 256
      line = line (x ? " " : "") v
    }
    print line
  }
}
