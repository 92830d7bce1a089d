# paths of tiles in reading order on stdin -> the whole, as wide and high as PICTURE
BEGIN {
  getline line < picture
  getline line < picture
  split(line, size, " "); w = size[1]; h = size[2]
  across = int((w + side - 1) / side)
}
{
  top = int((NR - 1) / across) * side; left = (NR - 1) % across * side
  for (row = -3; (getline line < $0) > 0; row++) {
    if (row < 0) continue
    n = split(line, pixel, " ")
    for (i = 1; i <= n; i++) whole[top + row, left + i - 1] = pixel[i]
  }
  close($0)
}
END {
  print "P2"; print w, h; print 255
  for (y = 0; y < h; y++) {
    line = ""
    for (x = 0; x < w; x++) line = line (x ? " " : "") whole[y, x]
    print line
  }
}
