package control_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"operon/engine"
	"operon/engine/body"
	"operon/engine/control"
	"operon/engine/enginetest"
	hosts "operon/engine/serve"
	"operon/spec"
)

const two = `pipeline: p
tasks:
  first: {out: A<i>, source: {values: [a, b]}}
  then: {in: A, for: i, out: B, run: "echo $a"}
`

// there is a host with real engines that answers on a socket and over HTTP.
type there struct {
	*enginetest.Rendezvous
	host         *hosts.Host
	socket, http string
	token        string
	stop         func()
}

func hosted(t *testing.T) *there {
	t.Helper()
	x := &there{Rendezvous: enginetest.New(t)}
	root := filepath.Join(t.TempDir(), "states")
	var err error
	x.host, err = hosts.New(t.Context(), hosts.Options{
		Root: root, Engine: engine.Options{Jobs: 2, Bodies: x.bodies}, Answer: control.AnswerEngine, Socket: control.SocketPath,
	})
	if err != nil {
		t.Fatal(err)
	}
	unix, path, err := control.ListenHost(root)
	if err != nil {
		t.Fatal(err)
	}
	web, err := control.ListenHTTP("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	if x.token, err = control.NewToken(root); err != nil {
		t.Fatal(err)
	}
	x.socket, x.http = path, "http://"+web.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := control.ServeHost(ctx, unix, x.host); err != nil {
			t.Error(err)
		}
	})
	serving.Go(func() {
		if err := control.ServeHTTP(ctx, web, x.host, x.token, false); err != nil {
			t.Error(err)
		}
	})
	x.stop = sync.OnceFunc(func() {
		x.host.Kill(errors.New("the test is over"))
		if err := x.host.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		serving.Wait()
	})
	t.Cleanup(x.stop)
	return x
}

// bodies are real for sources, and the test's for all else.
func (x *there) bodies(t *spec.TaskSpec) (body.Runner, error) {
	if t.Body.Kind == spec.BodySource {
		return body.New(&body.Config{Dir: "/x"}, t)
	}
	return x.Body(t)
}

func (x *there) dial(t *testing.T, addr string) *control.HostClient {
	t.Helper()
	c, err := control.DialHost(t.Context(), addr, x.token)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wanted(t *testing.T, text string) (*spec.Pipeline, hosts.Instance) {
	t.Helper()
	i := hosts.Instance{File: "/x/p.yaml", Source: text}
	p, err := engine.LoadSource([]byte(text), i.File, engine.LoadOptions{LookupEnv: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	return p, i
}

// A first submission, to its end: the same by both transports.
func TestSubmission(t *testing.T) {
	for _, way := range []string{"socket", "http"} {
		t.Run(way, func(t *testing.T) {
			x := hosted(t)
			addr := x.socket
			if way == "http" {
				addr = x.http
			}
			c := x.dial(t, addr)
			p, i := wanted(t, two)
			type ended struct {
				s   *engine.Summary
				err error
			}
			end := make(chan ended, 1)
			answers, failures := 0, 0
			go func() {
				s, err := c.Submit(t.Context(), p, i, nil, control.Hear{
					Answer: func(*hosts.Answer) { answers++ },
					Event: func(e engine.Event) {
						if e.Failed != nil && e.Failed.Message == "no luck" {
							failures++
						}
					},
				})
				end <- ended{s, err}
			}()
			x.OK("then", "i=0", `"A"`)
			s, err := c.Pipeline("p").Status(t.Context())
			if err != nil || s.State != engine.StateRunning || len(s.Tasks) != 2 {
				t.Errorf("status %+v, %v", s, err)
			}
			// The engine's own socket goes on answering.
			own := dial(t, control.SocketPath(filepath.Join(x.host.Root(), "p")))
			if s, err := own.Status(t.Context()); err != nil || s.State != engine.StateRunning {
				t.Errorf("its own socket: %+v, %v", s, err)
			}
			if err := c.Pipeline("p").Pause(t.Context(), []string{"nope"}, false); !isUnknown(err) {
				t.Errorf("pause: %v", err)
			}
			x.Fail("then", "i=1", body.KindExit, "no luck")
			got := <-end
			if got.err != nil || got.s.Failed != 1 || got.s.Executed != 2 || got.s.Asked || len(got.s.Failures) != 1 || got.s.Failures[0].Sample.Message != "no luck" {
				t.Errorf("%+v, %v", got.s, got.err)
			}
			if answers != 7 || failures != 1 {
				t.Errorf("%d answers, %d failures", answers, failures)
			}
			var items []string
			f, err := c.Pipeline("p").Values(t.Context(), engine.Query{Entity: "B"}, func(it engine.Item) error {
				items = append(items, string(it.Value.JSON))
				return nil
			})
			if err != nil || len(items) != 1 || items[0] != `"A"` || f.Have != 1 {
				t.Errorf("values %q %+v, %v", items, f, err)
			}
			if err := c.Pipeline("p").Quit(t.Context(), false); err == nil || !strings.Contains(err.Error(), "no engine runs") {
				t.Errorf("quit: %v", err)
			}
			if _, err := c.Pipeline("q").Status(t.Context()); !errors.Is(err, engine.ErrNoState) {
				t.Errorf("status of nothing: %v", err)
			}
			list, err := c.Pipelines(t.Context())
			if err != nil || len(list) != 1 || list[0].State != engine.StateFailed {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}

func isUnknown(err error) bool {
	var u *engine.UnknownError
	return errors.As(err, &u)
}

// lines are a whole submission as it goes over the wire.
func lines(t *testing.T) [][]byte {
	p, i := wanted(t, two)
	var out [][]byte
	for _, c := range hosts.Submission(uuid.NewString(), p, i, &hosts.Configuration{}) {
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, append(b, '\n'))
	}
	return out
}

// A connection that is cut after each command, and in the middle of each, has
// changed nothing, and the host goes on.
func TestCutConnectionChangesNothing(t *testing.T) {
	x := hosted(t)
	for n, line := range lines(t) {
		for _, part := range [][]byte{nil, line[:len(line)/2], line[:len(line)-1]} {
			all := lines(t)
			conn, err := net.Dial("unix", x.socket)
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(conn, `{"v":1,"method":"session"}`+"\n")
			in := bufio.NewReader(conn)
			for _, l := range all[:n] {
				conn.Write(l)
				if got, err := in.ReadString('\n'); err != nil || !strings.Contains(got, `"answer"`) {
					t.Fatalf("after %d commands: %q, %v", n, got, err)
				}
			}
			conn.Write(part)
			conn.Close()
		}
	}
	if list, err := x.dial(t, x.socket).Pipelines(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := os.Stat(filepath.Join(x.host.Root(), "p")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a state: %v", err)
	}
}

func TestHostileSessions(t *testing.T) {
	x := hosted(t)
	hello := string(lines(t)[0])
	for _, tt := range []struct{ name, send, want string }{
		{"no JSON", "what\n", "one JSON object a line"},
		{"secret in no JSON", `{"command":"create_instance","params":"hush` + "\n", "one JSON object a line"},
		{"null", "null\n", "unknown command"},
		{"wrong type", `{"command":7}` + "\n", "one JSON object a line"},
		{"huge", hello + strings.Repeat("x", control.MaxCommand+1) + "\n", "a command may have"},
		{"empty instance", hello + `{"command":"create_instance"}` + "\n", "without an instance"},
		{"empty dataflow", string(bytes.Join(lines(t)[:2], nil)) + `{"command":"create_dataflow"}` + "\n", "without a dataflow"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := raw(t, x.socket, []byte(`{"v":1,"method":"session"}`+"\n"+tt.send))
			if !strings.Contains(got, tt.want) || strings.Contains(got, "hush") {
				t.Errorf("socket: got %.300q", got)
			}
			status, got := x.ask(t, "POST", "/v1/sessions", tt.send, nil)
			if status != http.StatusOK || !strings.Contains(got, tt.want) {
				t.Errorf("http: %d %.300q", status, got)
			}
		})
	}
}

// ask makes an HTTP request with the token, unless the header says otherwise.
func (x *there) ask(t *testing.T, verb, path, send string, header map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), verb, x.http+path, strings.NewReader(send))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+x.token)
	for name, v := range header {
		if name == "Host" {
			req.Host = v
		}
		req.Header.Set(name, v)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func TestHTTPRefuses(t *testing.T) {
	x := hosted(t)
	port := x.http[strings.LastIndex(x.http, ":"):]
	for _, tt := range []struct {
		name, verb, path, send string
		header                 map[string]string
		status                 int
		want                   string
	}{
		{"no token", "GET", "/v1/pipelines", "", map[string]string{"Authorization": ""}, 401, `"kind":"request"`},
		{"wrong token", "GET", "/metrics", "", map[string]string{"Authorization": "Bearer 00"}, 401, "token"},
		{"another scheme", "GET", "/metrics", "", map[string]string{"Authorization": x.token}, 401, "token"},
		{"wrong token for a session", "POST", "/v1/sessions", "{}\n", map[string]string{"Authorization": "Bearer x"}, 401, "token"},
		{"wrong host", "GET", "/v1/pipelines", "", map[string]string{"Host": "evil.example" + port}, 403, "Host"},
		{"wrong host of health", "GET", "/healthz", "", map[string]string{"Host": "evil.example"}, 403, "Host"},
		{"wrong origin", "GET", "/v1/pipelines", "", map[string]string{"Origin": "http://evil.example"}, 403, "Origin"},
		{"no route", "GET", "/v2", "", nil, 404, "there is no GET /v2"},
		{"wrong verb", "GET", "/v1/pipelines/p/quit", "", nil, 404, "there is no GET"},
		{"bad name", "GET", "/v1/pipelines/P/status", "", nil, 400, "not the name of a pipeline"},
		{"climbing name", "GET", "/v1/pipelines/%2e%2e/status", "", nil, 400, "not the name"},
		{"no state", "GET", "/v1/pipelines/p/status", "", nil, 404, `"kind":"no-state"`},
		{"no run", "POST", "/v1/pipelines/p/quit", "", nil, 409, `"kind":"no-run"`},
		{"no JSON", "POST", "/v1/pipelines/p/pause", "{", nil, 400, "JSON object"},
		{"huge", "POST", "/v1/pipelines/p/pause", strings.Repeat(" ", control.MaxRequest+1), nil, 400, "a request may have"},
		{"bad at", "GET", "/v1/pipelines/p/values/A?at=i=x", "", nil, 400, "not an index"},
		{"bad failed", "GET", "/v1/pipelines/p/logs?failed=maybe", "", nil, 400, `want true or false, not \"maybe\"`},
		{"unknown query", "GET", "/v1/pipelines/p/logs?fialed=true", "", nil, 400, `nothing is asked for by \"fialed\"; there are: at,`},
		{"twice", "GET", "/v1/pipelines/p/values/A?at=i=1&at=i=2", "", nil, 400, "at: want it once, not 2 times"},
		{"logs of no task", "GET", "/v1/pipelines/p/logs?at=i=1", "", nil, 400, "which task"},
		{"misspelt field", "POST", "/v1/pipelines/p/pause", `{"taks":["a"]}`, nil, 400, `nothing is asked for by \"taks\"; there are: tasks, cascade`},
		{"another's field", "POST", "/v1/pipelines/p/quit", `{"cascade":true}`, nil, 400, `there are: force`},
		{"pool of none", "POST", "/v1/pipelines/p/pool", `{"name":"a","size":0}`, nil, 400, "needs at least 1"},
		{"no command's end", "POST", "/v1/sessions", "garbage", nil, 200, "ends before it is complete"},
		{"health", "GET", "/healthz", "", map[string]string{"Authorization": ""}, 200, "ok"},
		{"metrics", "GET", "/metrics", "", nil, 200, "operon_sessions 0"},
		{"localhost", "GET", "/v1/pipelines", "", map[string]string{"Host": "localhost" + port, "Origin": "http://localhost" + port}, 200, "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, got := x.ask(t, tt.verb, tt.path, tt.send, tt.header)
			if status != tt.status || !strings.Contains(got, tt.want) {
				t.Errorf("%d %.300s", status, got)
			}
		})
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(x.http, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n")
	if line, _ := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(line, "405") {
		t.Errorf("CONNECT: %q", line)
	}
	if _, err := control.ListenHTTP("0.0.0.0:0", false); err == nil || !strings.Contains(err.Error(), "other machines") {
		t.Errorf("listen everywhere: %v", err)
	}
	if info, err := os.Stat(control.TokenPath(x.host.Root())); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("token file: %v %v", info, err)
	}
}

// Who is not let in, or asks what can't be understood, does not keep a place,
// whatever of a body is still to come.
func TestRefusedClientIsDisconnected(t *testing.T) {
	x := hosted(t)
	addr := strings.TrimPrefix(x.http, "http://")
	auth := "Authorization: Bearer " + x.token + "\r\n"
	for name, send := range map[string]string{
		"no token":           "GET /v1/pipelines HTTP/1.1\r\nHost: " + addr + "\r\n\r\n",
		"no token, slow":     "POST /v1/pipelines/p/quit HTTP/1.1\r\nHost: " + addr + "\r\nContent-Length: 1000\r\n\r\n{",
		"another host":       "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
		"no name":            "GET /v1/pipelines/P/status HTTP/1.1\r\nHost: " + addr + "\r\n" + auth + "\r\n",
		"not even a request": "what\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, send)
			conn.SetReadDeadline(time.Now().Add(25 * time.Second)) // less than a body may take
			in := bufio.NewReader(conn)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode < 400 || !resp.Close {
				t.Errorf("%s, close %v", resp.Status, resp.Close)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Error(err)
			}
			resp.Body.Close()
			if _, err := in.ReadByte(); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("it is not disconnected")
			}
		})
	}
}

// Connections that say nothing take all places for a few seconds, not longer.
func TestSilentConnectionsAreEnded(t *testing.T) {
	if os.Getenv("OPERON_LONG") == "" {
		t.Skip("takes seconds; set OPERON_LONG=1")
	}
	x := hosted(t)
	for range control.MaxConns {
		conn, err := net.Dial("tcp", strings.TrimPrefix(x.http, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		defer func() {
			conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("a silent connection goes on")
			}
		}()
	}
}

// What sessions hold that are not complete is bounded over all of them, and is
// free again when they are gone.
func TestUnfinishedSubmissionsAreBoundedTogether(t *testing.T) {
	x := hosted(t)
	part := strings.Repeat("x", hosts.MaxHeld/2)
	begin := func(send string) (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("unix", x.socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		io.WriteString(conn, `{"v":1,"method":"session"}`+"\n"+send)
		return conn, bufio.NewReader(conn)
	}
	whole := string(bytes.Join(lines(t)[:2], nil))
	first, _ := begin(part)
	_, second := begin(part + part[:1<<20]) // more than a socket holds itself
	if got, _ := second.ReadString('\n'); !strings.Contains(got, `"kind":"crowded"`) {
		t.Errorf("got %.300q", got)
	}
	first.Close()
	for { // until the server has seen it
		_, third := begin(whole)
		if got, err := third.ReadString('\n'); strings.Contains(got, `"answer"`) {
			break
		} else if err == nil && !strings.Contains(got, `"kind":"crowded"`) {
			t.Fatalf("got %.300q", got)
		}
	}
}

// Who comes later is heard, and the earlier one is told; the run goes on.
func TestSupersededClientIsTold(t *testing.T) {
	x := hosted(t)
	p, i := wanted(t, two)
	first := make(chan error, 1)
	go func() {
		_, err := x.dial(t, x.http).Submit(t.Context(), p, i, nil, control.Hear{})
		first <- err
	}()
	x.OK("then", "i=0", `1`)
	conn, err := net.Dial("unix", x.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, `{"v":1,"method":"session"}`+"\n")
	conn.Write(lines(t)[0])
	var over *hosts.SupersededError
	if err := <-first; !errors.As(err, &over) || over.Pipeline != "p" {
		t.Errorf("got %v", err)
	}
	x.OK("then", "i=1", `2`)
}

// 1,000 connections that come and go leave nothing behind: goleak looks.
func TestManyConnections(t *testing.T) {
	x := hosted(t)
	all := bytes.Join(lines(t)[:3], nil)
	for n := range 1000 {
		if n%10 == 0 {
			x.ask(t, "POST", "/v1/sessions", string(all), nil)
			continue
		}
		conn, err := net.Dial("unix", x.socket)
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(append([]byte(`{"v":1,"method":"session"}`+"\n"), all...))
		bufio.NewReader(conn).ReadString('\n')
		conn.Close()
	}
	x.stop()
}

// A host that stops tells its clients how their runs ended.
func TestStoppingHostTellsTheEnd(t *testing.T) {
	x := hosted(t)
	p, i := wanted(t, two)
	end := make(chan *engine.Summary, 1)
	go func() {
		s, err := x.dial(t, x.socket).Submit(t.Context(), p, i, nil, control.Hear{})
		if err != nil {
			t.Error(err)
		}
		end <- s
	}()
	x.OK("then", "i=0", `1`)
	x.Await("then", "i=1") // else it is not begun any more
	x.host.Stop()
	x.OK("then", "i=1", `2`)
	if s := <-end; s == nil || s.Executed != 3 {
		t.Errorf("%+v", s)
	}
}
