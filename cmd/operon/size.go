package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// size reads a number of bytes: 1000, 64K, 256M, 2G, with or without B or iB,
// in powers of 1024. The empty text is 0: the default.
func size(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	number := strings.TrimRight(text, "KMGTiBkmgtb")
	shift, ok := map[string]uint{"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(text[len(number):]), "b"), "i")]
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || !ok || n < 1 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is not a size such as 1000, 64K, 256M or 2G", text)
	}
	return n << shift, nil
}

// memoLimit reads a size that may be 0, for none, which the engine takes as −1.
func memoLimit(text string) (int64, error) {
	if text == "0" {
		return -1, nil
	}
	return size(text)
}

// bytesText is a number of bytes for a person: 512 bytes, 1.5 MiB.
func bytesText(n int64) string {
	if n < 1024 {
		return count(int(n), "byte")
	}
	f, unit := float64(n)/1024, 0
	for ; f >= 1024 && unit < 3; unit++ {
		f /= 1024
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGT"[unit])
}
