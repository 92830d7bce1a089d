package body

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"operon/spec"
	"operon/spec/value"
)

const secretText = "hunter2-\"x\ny"

func secretBench(t *testing.T, task *spec.TaskSpec) *bench {
	t.Helper()
	task.Mentions = append(task.Mentions, "token")
	b := newBench(t, task)
	b.cfg.Pipeline.Params = []*spec.Param{{Name: "token", Secret: true, Value: value.FromText(secretText)}}
	return b
}

// A body has the secret, and neither log, message nor last lines show it.
func TestSecretsAreNotShown(t *testing.T) {
	b := secretBench(t, script(`printf '%s' "$token" >&2; echo " and $token" >&2; test "$token" = 'hunter2-"x
y'; exit 3`))
	f := b.fails(KindExit, b.job())
	if got := string(f.Stderr); got != "*** and ***\n" {
		t.Errorf("the last lines are %q", got)
	}
	if got := string(must(os.ReadFile(filepath.Join(b.dir, "logs", "1")))); got != "*** and ***\n" {
		t.Errorf("the log is %q", got)
	}
	b = secretBench(t, formatted(script(`printf '%s' "$token"`), spec.FormatJSON))
	f = b.fails(KindOutput, b.job(), "***")
	if strings.Contains(f.Message, "hunter2") {
		t.Errorf("the message is %q", f.Message)
	}
	long := strings.Repeat("secret", 30)
	b = secretBench(t, formatted(script(`printf '%s' "$token"; printf '%s' "$token" | tail -c 50 >&2`), spec.FormatJSON))
	b.cfg.Pipeline.Params[0].Value = value.FromText(long)
	f = b.fails(KindOutput, b.job(), "***…")
	if text := f.Message + string(f.Stderr); strings.Contains(text, "secr") {
		t.Errorf("a part of it is shown: %q", text)
	}
	task := pyWorker("print(os.environ['TOKEN'], file=sys.stderr, flush=True)\nsay(id=id, error=os.environ['TOKEN'] + ' is wrong')")
	task.Env = []spec.EnvVar{{Name: "TOKEN", Value: spec.ParseTemplate("{token}")}}
	b = secretBench(t, task)
	w := &workers{b, mustRunner(t, b.cfg, task)}
	o := w.batch(t.Context(), "")
	w.r.Close(t.Context())
	log := string(must(os.ReadFile(filepath.Join(b.dir, "logs", "worker-0.log"))))
	if f := o.failures[0]; f == nil || strings.Contains(f.Message+string(f.Stderr)+log, "hunter2") || log != "***\n" {
		t.Errorf("%+v, log %q", f, log)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// However a text is cut into writes, what comes out is as if it were one.
func TestHiderInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SliceOfN(rapid.SampledFrom([]byte("ab")), 0, 40)
		s := &secrets{texts: [][]byte{[]byte("abab"), []byte("bba")}, longest: 4}
		text := letters.Draw(t, "text")
		var pieces bytes.Buffer
		w := s.writer(&pieces)
		for rest := text; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			w.Write(rest[:n])
			rest = rest[n:]
		}
		w.Close()
		for _, secret := range s.texts {
			if bytes.Contains(pieces.Bytes(), secret) {
				t.Fatalf("%q of %q shows %q", pieces.Bytes(), text, secret)
			}
		}
		if !bytes.Contains(text, s.texts[0]) && !bytes.Contains(text, s.texts[1]) && !bytes.Equal(text, pieces.Bytes()) {
			t.Fatalf("%q became %q", text, pieces.Bytes())
		}
	})
}
