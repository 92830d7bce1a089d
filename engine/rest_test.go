package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/engine"
)

// resting has a worker that waits for its second job while another task needs what
// it holds: that job comes only once the other has run.
const resting = `pipeline: resting
tasks:
  docs: {out: Doc<doc>, source: {count: 2}}
  slow:
    in: {n: Doc}
    for: doc
    out: Slow
    run: test "$n" = 0 || while ! test -e heavy; do sleep 0.02; done; echo "$n"
  serve:
    in: Slow
    for: doc
    out: Served
    %[1]s
    worker: [sh, -c, 'echo loaded >&2; i=0; while read -r line; do i=$((i+1)); echo "{\"id\":$i,\"value\":$$}"; done; echo ended >&2']
  heavy:
    in: Served
    for: doc
    out: Heavy
    %[1]s
    run: 'touch heavy; if kill -0 "$served"; then echo "beside $served $CUDA_VISIBLE_DEVICES"; else echo "alone $served $CUDA_VISIBLE_DEVICES"; fi'
`

// A process that idles makes room where another task needs its memory or its GPU,
// and stays where nobody does.
func TestIdleWorkersMakeRoom(t *testing.T) {
	tests := []struct {
		needs  string
		o      engine.Options
		beside bool
		gpu    string // of the first heavy job
	}{
		{"mem: 600M", engine.Options{Mem: 1 << 30}, false, ""},
		{"mem: 600M", engine.Options{Mem: 2 << 30}, true, ""},
		{"gpus: 1", engine.Options{GPUs: 1}, false, " 0"},
		{"gpus: 1", engine.Options{GPUs: 2}, true, " 1"},
		{"cpus: 1", engine.Options{CPUs: 2}, true, ""},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s beside=%t", tt.needs, tt.beside), func(t *testing.T) {
			p := newProject(t, fmt.Sprintf(resting, tt.needs))
			tt.o.Jobs, tt.o.Environ = 4, []string{"PATH=/usr/bin:/bin"}
			p.mustRun(tt.o)
			var served []string
			for line := range strings.Lines(p.values("Served")) {
				served = append(served, strings.Fields(line)[1])
			}
			heavy, _, _ := strings.Cut(p.values("Heavy"), "\n")
			want := "alone " + served[0]
			if tt.beside {
				want = "beside " + served[0]
			}
			if heavy = strings.TrimRight(heavy, " \""); strings.TrimRight(heavy, " ") != `doc=0 "`+want+tt.gpu {
				t.Errorf("%s, want %s", heavy, want)
			}
			if same := served[0] == served[1]; same != tt.beside {
				t.Errorf("the processes were %v", served)
			}
			// A log goes on where the process before left it.
			logs := p.logText("serve")
			if loads := strings.Count(logs, "loaded\n"); loads != map[bool]int{true: 1, false: 2}[tt.beside] || loads != strings.Count(logs, "ended\n") {
				t.Errorf("the log is %q", logs)
			}
		})
	}
}

// logText is what a task's first worker printed to standard error.
func (p *project) logText(task string) string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.stateDir("resting"), "logs", task, "worker-0.log"))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}
