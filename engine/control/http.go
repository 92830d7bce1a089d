package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"operon/engine/serve"
)

// What the HTTP server allows a client, beside what the socket does.
const (
	headerTimeout = 3 * time.Second
	bodyTimeout   = 30 * time.Second // of a request that is no session
	refuseTimeout = time.Second      // to take what else a refused client sends
	maxHeader     = 16 << 10
)

// ServeHTTP answers HTTP requests on ln from a host until ctx ends, to whoever
// has the token. It closes ln, and returns after all its connections have ended.
// anyName says that the server may be called by any name, for an address that is
// not this machine's alone.
func ServeHTTP(ctx context.Context, ln net.Listener, host *serve.Host, token string, anyName bool) error {
	g := newGuard(ln.Addr(), token, anyName)
	h := &webHost{core: core{host: host}}
	var sessions sync.WaitGroup
	ending, end := context.WithCancel(ctx)
	defer end()
	srv := &http.Server{
		Handler:           g.protect(h.mux(&sessions)),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, WriteTimeout: WriteTimeout, IdleTimeout: IdleTimeout,
		MaxHeaderBytes: maxHeader,
		BaseContext:    func(net.Listener) context.Context { return ending },
		// Its own log would tell of what clients do wrong, line by line.
		ErrorLog: quietLog(),
	}
	var closing sync.WaitGroup
	closing.Go(func() {
		<-ending.Done()
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if srv.Shutdown(short) != nil {
			srv.Close()
		}
	})
	err := srv.Serve(&fewConns{Listener: ln, slots: make(chan struct{}, MaxConns)})
	end()
	closing.Wait()
	sessions.Wait()
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve HTTP on %s: %w", ln.Addr(), err)
}

// webHost answers HTTP requests. What they ask for is core's to say.
type webHost struct{ core core }

func (h *webHost) mux(sessions *sync.WaitGroup) http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.HandleFunc(r.verb+" "+r.pattern, func(w http.ResponseWriter, req *http.Request) { h.route(w, req, r) })
	}
	mux.HandleFunc("POST /v1/sessions", func(w http.ResponseWriter, req *http.Request) {
		sessions.Add(1)
		defer sessions.Done()
		h.session(w, req)
	})
	mux.HandleFunc("GET /metrics", h.metrics)
	mux.HandleFunc("GET "+healthPath, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		refuseHTTP(w, http.StatusNotFound, &RequestError{Message: fmt.Sprintf("there is no %s %s", req.Method, req.URL.Path)})
	})
	return mux
}

func (h *webHost) route(w http.ResponseWriter, req *http.Request, r route) {
	req.Body = http.MaxBytesReader(w, req.Body, MaxRequest)
	ask, err := r.requestOf(req)
	out := newAnswer(slowly(w))
	defer out.spool.close()
	if err == nil {
		err = h.core.answer(req.Context(), ask, out)
	}
	if err != nil {
		refuseHTTP(w, statusOf(err), err)
		return
	}
	if r.lines {
		w.Header().Set("Content-Type", "application/x-ndjson")
		out.end(nil)
		return
	}
	writeBody(w, http.StatusOK, r.into(&out.last))
}

// session carries a submission. Commands and what is said pass at the same time.
func (h *webHost) session(w http.ResponseWriter, req *http.Request) {
	rc := http.NewResponseController(w)
	if err := rc.EnableFullDuplex(); err != nil {
		refuseHTTP(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	t := &talk{in: newLineReader(req.Body, MaxCommand), out: slowly(w), until: rc.SetReadDeadline, half: true}
	t.run(req.Context(), h.core.host)
}

func (h *webHost) metrics(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	h.core.host.WriteMetrics(req.Context(), w)
}

// slowly gives each write WriteTimeout, and sends it at once.
func slowly(w http.ResponseWriter) io.Writer {
	return &slowWriter{w, http.NewResponseController(w)}
}

type slowWriter struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (s *slowWriter) Write(p []byte) (int, error) {
	if err := s.rc.SetWriteDeadline(time.Now().Add(WriteTimeout)); err != nil {
		return 0, err
	}
	n, err := s.w.Write(p)
	if err == nil {
		err = s.rc.Flush()
	}
	return n, err
}

func writeBody(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.Encode(body) // who asked may have gone
}

// refuseHTTP answers with a problem. A client that is not let in, or does not
// know how to ask, gives its place back at once.
func refuseHTTP(w http.ResponseWriter, status int, err error) {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed:
		w.Header().Set("Connection", "close")
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(refuseTimeout)) // else the rest of its body is waited for
	}
	writeBody(w, status, reply{Error: problemOf(err)})
}

// statusOf is the HTTP status of a problem.
func statusOf(err error) int {
	switch problemOf(err).Kind {
	case kindRequest, kindLabel, kindSpec, kindResources:
		return http.StatusBadRequest
	case kindUnknown, kindNoState:
		return http.StatusNotFound
	case kindNoRun, kindInUse, kindForeign, kindNewer, kindMismatch, kindSuperseded, kindEarly, kindElsewhere, kindReleased:
		return http.StatusConflict
	case kindBusy, kindGone, kindStopping, kindCrowded:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// fewConns accepts as many connections at a time as there are slots.
type fewConns struct {
	net.Listener
	slots chan struct{}
}

// Accept is net.Listener's. One connection too many is closed at once.
func (l *fewConns) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &slotConn{Conn: conn, free: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			conn.Close()
		}
	}
}

type slotConn struct {
	net.Conn
	free func()
}

// Close gives the slot back.
func (c *slotConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}
