package control_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"operon/engine"
	"operon/engine/control"
	"operon/spec/coord"
	"operon/spec/value"
)

// raw sends bytes on a connection of its own and returns all that comes back.
func raw(t *testing.T, socket string, send []byte) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Write(send) // fails where the server has hung up already
	conn.(*net.UnixConn).CloseWrite()
	got, _ := io.ReadAll(conn)
	return string(got)
}

func TestGarbageIsRefusedAndHarmless(t *testing.T) {
	tests := []struct{ name, send, want string }{
		{"nothing", "", ""},
		{"half a request", `{"v":1,"meth`, ""},
		{"no JSON", "GET / HTTP/1.1\r\n\r\n", "one JSON object a line"},
		{"binary", "\x00\xff\xfe\n", "one JSON object a line"},
		{"wrong type", `{"v":1,"method":7}` + "\n", "one JSON object a line"},
		{"null", "null\n", "speaks version 1"},
		{"newer version", `{"v":2,"method":"status"}` + "\n", "speaks version 1"},
		{"unknown method", `{"v":1,"method":"explode"}` + "\n", `unknown method`},
		{"index too large", `{"v":1,"method":"values","at":{"i":-1}}` + "\n", "one JSON object a line"},
		{"huge line", strings.Repeat("x", control.MaxRequest+1) + "\n", "a request may have"},
		{"several", `{"v":1,"method":"hello"}` + "\n" + `{"v":1,"method":"quit"}` + "\n", `{"v":1,"done":true}` + "\n" + `{"done":true}`},
		{"hello after an error", `{"v":9}` + "\n" + `{"v":1,"method":"hello"}` + "\n", `{"v":1,"done":true}`},
	}
	f := &fake{status: &engine.Status{Pipeline: "p"}}
	socket, _ := serve(t, f)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := raw(t, socket, []byte(tt.send))
			if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got %.300q", got)
			}
			if _, err := dial(t, socket).Status(t.Context()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestTooManyClientsAreRefused(t *testing.T) {
	socket, _ := serve(t, &fake{status: &engine.Status{}})
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range control.MaxConns {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		conn.Write([]byte(`{"v":1,"method":"hello"}` + "\n"))
		if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := control.Dial(socket); !errors.Is(err, control.ErrBusy) {
		t.Errorf("one too many: %v", err)
	}
}

// A client that asks for much and reads nothing holds one connection, and
// neither the engine's other clients nor its end.
func TestClientThatDoesNotReadHarmsNobody(t *testing.T) {
	t.Parallel()
	f := &fake{status: &engine.Status{Pipeline: "p"}, dims: []string{"i"}}
	big := value.FromText(strings.Repeat("x", 1<<20))
	for i := range uint32(16) {
		f.items = append(f.items, engine.Item{Coord: coord.Of(i), Value: big})
	}
	socket, stop := serve(t, f)
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Write([]byte(`{"v":1,"method":"values","entity":"E"}` + "\n"))
	if _, err := conn.Read(make([]byte, 1)); err != nil { // the answer has begun
		t.Fatal(err)
	}
	if _, err := dial(t, socket).Status(t.Context()); err != nil {
		t.Errorf("another client: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestClientOfAnEngineThatDies(t *testing.T) {
	answers := []struct{ name, send string }{
		{"at once", ""},
		{"in a line", `{"dims":["i"]}` + "\n" + `{"item":{"coo`},
		{"between lines", `{"dims":["i"]}` + "\n" + `{"item":{"coord":[0],"json":1}}` + "\n"},
	}
	for _, tt := range answers {
		t.Run(tt.name, func(t *testing.T) {
			socket := answerWith(t, tt.send)
			c := dial(t, socket)
			_, err := c.Values(t.Context(), engine.Query{Entity: "E"}, func(engine.Item) error { return nil })
			if !errors.Is(err, control.ErrGone) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("no JSON", func(t *testing.T) {
		c := dial(t, answerWith(t, "oops\n"))
		if _, err := c.Status(t.Context()); err == nil || errors.Is(err, control.ErrGone) {
			t.Errorf("got %v", err)
		}
	})
}

// answerWith is a socket that says hello, and answers all else with send and
// the end of the connection.
func answerWith(t *testing.T, send string) string {
	t.Helper()
	ln, socket, err := control.Listen(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { ln.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadBytes('\n')
			if bytes.Contains(line, []byte(`"hello"`)) {
				io.WriteString(conn, `{"v":1,"done":true}`+"\n")
			} else {
				io.WriteString(conn, send)
			}
			conn.Close()
		}
	}()
	return socket
}

// FuzzRequest sends any bytes: whatever comes back is lines of JSON, and the
// server still answers afterwards.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"v":1,"method":"values","entity":"E","at":{"i":0}}` + "\n"))
	f.Add([]byte("{}\n\n"))
	f.Add([]byte(`{"v":1,"method":"pause","tasks":["a"],"cascade":true}` + "\n" + `{"v":1,"method":"logs"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		srv := &fake{
			status: &engine.Status{Pipeline: "p"},
			items:  []engine.Item{{Coord: coord.Of(0), Value: value.FromText("v")}},
		}
		socket, stop := serve(t, srv)
		for line := range strings.Lines(raw(t, socket, data)) {
			if !json.Valid([]byte(line)) {
				t.Errorf("answered %q", line)
			}
		}
		dial(t, socket)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
