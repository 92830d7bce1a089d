package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"operon/engine/control"
)

// ownServer is the value of --server where no address follows: the server of
// the state root beside the pipeline file.
const ownServer = "-"

// optional are the flags whose value may be left out, with what it then is, and
// what is taken for a value.
var optional = map[string]struct {
	without string
	value   *regexp.Regexp
}{
	"server": {ownServer, regexp.MustCompile(`^http://|^[^/]*:[0-9]+/?$|\.sock$`)},
}

func serverFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "server", Usage: "ask the server at `ADDR`, HOST:PORT or a socket; without ADDR that of .operon beside FILE", EnvVars: []string{"OPERON_SERVER"}},
		&cli.StringFlag{Name: "token-file", Usage: "the server's token is in `FILE` (default: what OPERON_TOKEN says)"},
	}
}

// serverAddr is where the server is that --server names, for a pipeline file.
func serverAddr(given, file string) string {
	switch {
	case given == ownServer:
		return control.HostSocketPath(filepath.Join(filepath.Dir(file), ".operon"))
	case strings.HasPrefix(given, "http://"), strings.HasSuffix(given, ".sock"):
		return given
	}
	return "http://" + strings.TrimSuffix(given, "/")
}

// dialServer reaches the server that --server names.
func (a *app) dialServer(ctx context.Context, c *cli.Context, file string) (*control.HostClient, error) {
	return dialHost(ctx, serverAddr(c.String("server"), file), c.String("token-file"), a.getenv)
}

func dialHost(ctx context.Context, addr, tokenFile string, getenv func(string) string) (*control.HostClient, error) {
	token := getenv("OPERON_TOKEN")
	if tokenFile != "" {
		text, err := os.ReadFile(tokenFile)
		if err != nil {
			return nil, fmt.Errorf("read the server's token: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	h, err := control.DialHost(ctx, addr, token)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) { // never was, or was killed
		return nil, usagef("no server answers at %s; operon serve starts one", addr)
	}
	return h, err
}

// tryServer opens what a server answers for the target.
func (t target) tryServer(ctx context.Context) (*source, error) {
	if t.file == "" {
		return nil, usagef("--server wants a pipeline FILE")
	}
	if t.asked != "" {
		return nil, usagef("--server and --state: the server has a state of its own; choose one")
	}
	h, err := dialHost(ctx, serverAddr(t.server, t.file), t.tokenFile, os.Getenv)
	if err != nil {
		return nil, err
	}
	name, err := pipelineName(t.file)
	if err != nil {
		return nil, err
	}
	client := h.Pipeline(name)
	return &source{View: client, engine: client, close: func() error { return nil }}, nil
}
