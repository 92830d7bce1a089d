package control

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	tokenName  = "serve.token"
	healthPath = "/healthz"
)

// TokenPath is where a host of that state root keeps the token of its HTTP API.
func TokenPath(root string) string { return filepath.Join(root, tokenName) }

// NewToken makes a token of 256 bits and writes it where TokenPath says, for the
// user alone (mode 0600). An earlier one is of no more use.
func NewToken(root string) (string, error) {
	var secret [32]byte
	rand.Read(secret[:]) // never fails
	token := hex.EncodeToString(secret[:])
	f, err := os.CreateTemp(root, tokenName+"-") // of mode 0600
	if err != nil {
		return "", fmt.Errorf("write the token: %w", err)
	}
	_, err = f.WriteString(token + "\n")
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), TokenPath(root))
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("write the token: %w", err), os.Remove(f.Name()))
	}
	return token, nil
}

// ListenHTTP opens an address for the HTTP API. One that others than this
// machine reach is refused, unless anyway is set.
func ListenHTTP(addr string, anyway bool) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &RequestError{Message: fmt.Sprintf("an address is HOST:PORT, such as 127.0.0.1:7070, not %q", addr)}
	}
	if ip := net.ParseIP(host); !anyway && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, &RequestError{Message: fmt.Sprintf("%s can be reached by other machines, and what passes is not encrypted: take 127.0.0.1, or say --listen-anyway", addr)}
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	if ip := ln.Addr().(*net.TCPAddr).IP; !anyway && !ip.IsLoopback() {
		return nil, errors.Join(&RequestError{Message: addr + " is no loopback address"}, ln.Close())
	}
	return ln, nil
}

// guard lets in who has the token and means us: a page in a browser that was
// lured here sends another Host, or an Origin.
type guard struct {
	sum     [sha256.Size]byte // of the token
	names   []string          // that we are called by, with the port
	anyName bool
}

func newGuard(addr net.Addr, token string, anyName bool) *guard {
	_, port, _ := net.SplitHostPort(addr.String())
	g := &guard{sum: sha256.Sum256([]byte(token)), names: []string{addr.String()}, anyName: anyName}
	for _, name := range []string{"127.0.0.1", "localhost", "::1"} {
		g.names = append(g.names, net.JoinHostPort(name, port))
	}
	return g
}

func (g *guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		status, why := g.refuses(req)
		if why == "" {
			next.ServeHTTP(w, req)
			return
		}
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		refuseHTTP(w, status, &RequestError{Message: why})
	})
}

// refuses says why a request is not let in, "" if it is.
func (g *guard) refuses(req *http.Request) (status int, why string) {
	origin := req.Header.Get("Origin")
	switch {
	case req.Method == http.MethodConnect:
		return http.StatusMethodNotAllowed, "this is no proxy"
	case !g.anyName && !slices.Contains(g.names, strings.ToLower(req.Host)):
		return http.StatusForbidden, "the Host header names another server"
	case origin != "" && !strings.EqualFold(origin, "http://"+req.Host):
		return http.StatusForbidden, "the Origin header names another server"
	case req.URL.Path == healthPath:
		return 0, ""
	}
	token, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sum[:], g.sum[:]) != 1 || !ok {
		return http.StatusUnauthorized, "the token is missing or wrong: it stands in serve.token in the server's state root"
	}
	return 0, ""
}

func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }
