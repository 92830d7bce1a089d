package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
	"pgregory.net/rapid"
)

func TestArrange(t *testing.T) {
	tests := []struct{ args, want, fails string }{
		{"run p.yaml -j 4", "run --j=4 -- p.yaml", ""},
		{"run -j 4 p.yaml", "run --j=4 -- p.yaml", ""},
		{"run p.yaml -j4", "run --j=4 -- p.yaml", ""},
		{"run p.yaml -j=4", "run --j=4 -- p.yaml", ""},
		{"run p.yaml --jobs 4", "run --jobs=4 -- p.yaml", ""},
		{"run p.yaml -kj4", "run --k --j=4 -- p.yaml", ""},
		{"run -kj 4 p.yaml", "run --k --j=4 -- p.yaml", ""},
		{"run -p a=1,2 p.yaml -p b=-3", "run --p=a=1,2 --p=b=-3 -- p.yaml", ""},
		{"run -pa=1 p.yaml", "run --p=a=1 -- p.yaml", ""},
		{"run -p -x=1", "run --p=-x=1 --", ""},
		{"run --params= p.yaml", "run --params= -- p.yaml", ""},
		{"run -json p.yaml", "run --json -- p.yaml", ""},
		{"run --json=false", "run --json=false --", ""},
		{"run -- -p.yaml -j", "run -- -p.yaml -j", ""},
		{"run -", "run -- -", ""},
		{"run -h", "help -- run", ""},
		{"run p.yaml --help -j 2", "help -- run", ""},
		{"get p.yaml Word --at i=0,j=2 --json", "get --at=i=0,j=2 --json -- p.yaml Word", ""},
		{"--help", "help", ""},
		{"-h", "help", ""},
		{"--version", "version", ""},
		{"", "", "no command given"},
		{"-j 4 run", "", "the command comes before its flags"},
		{"rnu", "", "did you mean run?"},
		{"frobnicate", "", "there are: run, plan"},
		{"run -x", "", "run has no flag -x"},
		{"run -jx4k", "run --j=x4k --", ""},
		{"run -kx", "", "run has no flag -kx"},
		{"run p.yaml --freh", "", "did you mean --fresh?"},
		{"run p.yaml --keep", "", "did you mean --keep-going?"},
		{"run p.yaml --j4", "", "run has no flag --j4"},
		{"run -j", "", "-j needs a value"},
		{"run -kj", "", "-j needs a value"},
		{"run --until", "", "--until needs a value"},
		{"get -p x=1", "", "get has no flag -p"},
		{"run --watch", "", "--watch of run is not there yet"},
		{"serve --listen x:1", "serve --listen=x:1 --", ""},
		{"clean --all", "clean --all --", ""},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			got, err := arrange(newApp().cli(), strings.Fields(tt.args))
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) || ExitCode(err) != 2 {
					t.Errorf("got %q, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Every flag of every command may stand before, between and behind the other
// arguments, and means the same: the command hears the same.
func TestFlagsStandAnywhere(t *testing.T) {
	root := newApp().cli()
	for _, command := range root.Commands {
		rapid.Check(t, func(t *rapid.T) {
			var flags [][]string
			for _, f := range command.Flags {
				if f == cli.HelpFlag {
					continue // it makes another command of it
				}
				name := rapid.SampledFrom(f.Names()).Draw(t, "name")
				dashed := "--" + name
				if len(name) == 1 {
					dashed = "-" + name
				}
				given := []string{dashed}
				if o, ok := optional[name]; ok {
					given = append(given, rapid.SampledFrom([]string{"http://h:1", "h:1", "a/b.sock"}).Draw(t, "address"))
					if rapid.Bool().Draw(t, "without") {
						given = []string{dashed + "=" + o.without}
					}
				} else if f.(cli.DocGenerationFlag).TakesValue() {
					given = append(given, rapid.SampledFrom([]string{"v", "-v", "--", "a=b,c", ""}).Draw(t, "value"))
				}
				flags = append(flags, given)
			}
			rest := []string{"p.yaml", "A", "b"}
			args := []string{command.Name}
			for f, r := 0, 0; f < len(flags) || r < len(rest); {
				if r == len(rest) || f < len(flags) && rapid.Bool().Draw(t, "flag next") {
					args = append(args, flags[f]...)
					f++
				} else {
					args = append(args, rest[r])
					r++
				}
			}
			got, err := arrange(root, args)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{command.Name}
			for _, f := range flags {
				flag := "--" + strings.TrimLeft(f[0], "-")
				if len(f) == 2 {
					flag += "=" + f[1]
				}
				want = append(want, flag)
			}
			want = append(append(want, "--"), rest...)
			if !slices.Equal(got, want) {
				t.Errorf("%q: got %q, want %q", args, got, want)
			}
		})
	}
}

func FuzzArrange(f *testing.F) {
	f.Add("run\x00-kj4\x00--\x00-x")
	f.Add("get\x00--at=\x00-")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := arrange(newApp().cli(), strings.Split(text, "\x00"))
		if err != nil {
			if _, usage := errors.AsType[*usageError](err); !usage {
				t.Errorf("error %T", err)
			}
			return
		}
		if len(got) > 1 && !slices.Contains(got, "--") {
			t.Errorf("%q has no end of flags", got)
		}
	})
}
