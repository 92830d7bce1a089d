package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"operon/engine"
	"operon/engine/serve"
	"operon/spec"
)

// HostClient asks a host of many pipelines. It holds no connection between
// calls.
type HostClient struct{ way way }

// DialHost finds out whether a host answers at an address: the path of a Unix
// socket, or an http:// URL, which wants the host's token.
func DialHost(ctx context.Context, addr, token string) (*HostClient, error) {
	if !strings.HasPrefix(addr, "http://") {
		if err := greet(addr); err != nil {
			return nil, err
		}
		return &HostClient{unixSocket(addr)}, nil
	}
	w, err := newWeb(addr, token)
	if err != nil {
		return nil, err
	}
	c := &HostClient{w}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if _, err := c.Pipelines(ctx); err != nil {
		return nil, fmt.Errorf("reach the server at %s: %w", addr, err)
	}
	return c, nil
}

// Pipeline asks for one pipeline, whether it runs or not.
func (c *HostClient) Pipeline(name string) *Client { return &Client{c.way, name} }

// Pipelines are those that the host knows.
func (c *HostClient) Pipelines(ctx context.Context) (list []serve.Info, err error) {
	err = c.way.call(ctx, request{V: Version, Method: methodPipelines}, func(r *reply) error { list = r.Pipelines; return nil })
	return list, err
}

// Hear is what a submission's client listens to. All may be nil.
type Hear struct {
	Answer func(*serve.Answer)
	Event  func(engine.Event)
	Gap    func(lost int64) // so many events were left out here
}

// Submit submits a pipeline in a session of its own, and hears the run to its
// end. Summary is nil where the run did not come so far. When ctx ends, the run
// goes on without us.
func (c *HostClient) Submit(ctx context.Context, p *spec.Pipeline, i serve.Instance, config *serve.Configuration, h Hear) (*engine.Summary, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	for _, command := range serve.Submission(uuid.NewString(), p, i, config) {
		if err := enc.Encode(command); err != nil {
			return nil, fmt.Errorf("make a submission: %w", err)
		}
	}
	var s *engine.Summary
	err := c.way.session(ctx, text.Bytes(), func(r *reply) error {
		switch {
		case r.Answer != nil && h.Answer != nil:
			h.Answer(r.Answer)
		case r.Event != nil && h.Event != nil:
			h.Event(r.Event.decode())
		case r.Gap > 0 && h.Gap != nil:
			h.Gap(r.Gap)
		case r.Summary != nil:
			s = r.Summary.decode()
		}
		return nil
	})
	if err == nil && s == nil {
		err = errors.New("the server ended the session without a summary")
	}
	return s, err
}
