package main

import (
	"math"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"operon/engine"
	"operon/spec"
)

// roomOptions reads the flags that bound a run: what it may take of the machine,
// which coordinates, how many failures.
func roomOptions(c *cli.Context, o *engine.Options) (err error) {
	o.MaxFailures, o.RetryHoles = c.Int64("max-failures"), c.Bool("retry-holes")
	if c.IsSet("max-failures") && o.MaxFailures < 1 {
		return usagef("--max-failures is a number of jobs from 1, not %d", o.MaxFailures)
	}
	if o.RetryHoles && o.Fresh {
		return usagef("--fresh starts over, and there are no holes to try again; leave out one of --fresh and --retry-holes")
	}
	if o.CPUs, err = cpus(c.String("cpus")); err != nil {
		return err
	}
	if o.Mem, err = size(c.String("mem")); err != nil {
		return usagef("--mem: %v", err)
	}
	if c.IsSet("gpus") {
		switch o.GPUs = c.Int("gpus"); {
		case o.GPUs < 0:
			return usagef("--gpus is a number from 0, not %d", o.GPUs)
		case o.GPUs == 0:
			o.GPUs = -1
		}
	}
	if o.Only, err = only(c.StringSlice("only")); err != nil {
		return err
	}
	o.Sample, err = sample(c.String("sample"))
	return err
}

func cpus(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0) || math.IsInf(n, 0) {
		return 0, usagef("--cpus is a number above 0, such as 4 or 1.5, not %q", text)
	}
	return n, nil
}

// only reads --only: dim=index or dim=@label, several with commas between.
func only(list []string) (map[string][]string, error) {
	out := map[string][]string{}
	for _, text := range list {
		for _, part := range atParts(text) {
			name, index, ok := strings.Cut(part, "=")
			if name = strings.TrimSpace(name); !ok || !spec.IsName(name) {
				return nil, usagef("--only %s: want dim=index or dim=@label", quote(text))
			}
			out[name] = append(out[name], strings.TrimSpace(index))
		}
	}
	return out, nil
}

// sample reads --sample: N, or dim=N.
func sample(text string) (map[string]int, error) {
	if text == "" {
		return nil, nil
	}
	out := map[string]int{}
	for part := range strings.SplitSeq(text, ",") {
		name, number, ok := strings.Cut(part, "=")
		if !ok {
			name, number = "", part
		}
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n < 1 {
			return nil, usagef("--sample %s: want a number from 1, or dim=number", quote(text))
		}
		out[strings.TrimSpace(name)] = n
	}
	return out, nil
}
