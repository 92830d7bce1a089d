# an ASCII PGM (a line a row) -> FOLDER/yROWxCOLUMN.pgm, SIDE pixels square, smaller at the right and lower edge
function least(a, b) { return a < b ? a : b }
NR == 2 { w = $1; h = $2 }
NR > 3 {
  y = NR - 4
  for (left = 0; left < w; left += side) {
    f = sprintf("%s/y%03dx%03d.pgm", folder, int(y / side), left / side)
    if (y % side == 0) {
      print "P2" > f
      print least(side, w - left), least(side, h - y) > f
      print 255 > f
    }
    line = ""
    for (x = left; x < least(left + side, w); x++) line = line (x > left ? " " : "") $(x + 1)
    print line > f
    if (y % side == side - 1) close(f)
  }
}
