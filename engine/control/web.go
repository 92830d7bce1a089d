package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// web is a server that speaks HTTP.
type web struct {
	base   string // http://HOST:PORT
	token  string
	client *http.Client
}

func newWeb(addr, token string) (*web, error) {
	u, err := url.Parse(addr)
	if err != nil || u.Host == "" || u.Path != "" && u.Path != "/" {
		return nil, fmt.Errorf("a server's address is http://HOST:PORT, not %q", addr)
	}
	// A connection a call: calls need not wait for each other, and an abandoned
	// one is a closed connection. No proxy: the token is for that host alone.
	t := &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: 0, MaxResponseHeaderBytes: 64 << 10}
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &web{base: "http://" + u.Host, token: token, client: &http.Client{Transport: t, CheckRedirect: noRedirect}}, nil
}

func (w *web) call(ctx context.Context, req request, fn func(*reply) error) error {
	r, ok := routeOf(req)
	if !ok {
		return fmt.Errorf("make a request: %s has no route", req.Method)
	}
	var body io.Reader
	if r.verb == http.MethodPost {
		text, err := json.Marshal(req)
		if err != nil {
			return fmt.Errorf("make a request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	return w.do(ctx, r.verb, r.path(req), body, func(in io.Reader) error {
		if r.lines {
			return hearLines(in, fn)
		}
		text, err := io.ReadAll(io.LimitReader(in, MaxReply))
		if err != nil {
			return fmt.Errorf("%w (%w)", ErrGone, err)
		}
		answer := &reply{Done: true}
		if err := json.Unmarshal(text, r.into(answer)); err != nil {
			return fmt.Errorf("the server sent what is no answer: %w", err)
		}
		return fn(answer)
	})
}

func (w *web) session(ctx context.Context, commands []byte, fn func(*reply) error) error {
	return w.do(ctx, http.MethodPost, "/v1/sessions", bytes.NewReader(commands), func(in io.Reader) error { return hearLines(in, fn) })
}

// do makes an HTTP request, and hands its answer to take if it is none of an
// error.
func (w *web) do(ctx context.Context, verb, path string, body io.Reader, take func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, verb, w.base+path, body)
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(w.token))
	resp, err := w.client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			err = take(resp.Body)
		} else {
			err = problemIn(resp)
		}
	} else {
		err = fmt.Errorf("%w (%w)", ErrGone, err)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func problemIn(resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, MaxRequest))
	var r reply
	if err == nil && json.Unmarshal(text, &r) == nil && r.Error != nil {
		return r.Error.decode()
	}
	return errors.New("the server answered " + resp.Status)
}
