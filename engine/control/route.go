package control

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"operon/spec/coord"
)

// route is a request's place in the HTTP API. Client and server go by the same
// table.
type route struct {
	method  string // of the protocol
	verb    string
	pattern string // with {name} for the pipeline and {entity} or {task} for what it says
	lines   bool   // the answer is lines, as on a socket
	// into is what the body of an answer is, which is not lines.
	into func(*reply) any
	// takes are the fields that the body of a POST may have.
	takes []string
}

func nothing(*reply) any { return &struct{}{} }

// routes are not to be changed.
var routes = []route{
	{methodPipelines, http.MethodGet, "/v1/pipelines", false, func(r *reply) any { return &r.Pipelines }, nil},
	{methodStatus, http.MethodGet, "/v1/pipelines/{name}/status", false, func(r *reply) any { return &r.Status }, nil},
	{methodValues, http.MethodGet, "/v1/pipelines/{name}/values/{entity}", true, nil, nil},
	{methodLogs, http.MethodGet, "/v1/pipelines/{name}/logs", true, nil, nil},
	{methodPlan, http.MethodPost, "/v1/pipelines/{name}/plan", false, func(r *reply) any { return &planBody{r} }, []string{"plan"}},
	{methodPause, http.MethodPost, "/v1/pipelines/{name}/pause", false, nothing, []string{"tasks", "cascade"}},
	{methodResume, http.MethodPost, "/v1/pipelines/{name}/resume", false, nothing, []string{"tasks"}},
	{methodQuit, http.MethodPost, "/v1/pipelines/{name}/quit", false, nothing, []string{"force"}},
	{methodPool, http.MethodPost, "/v1/pipelines/{name}/pool", false, nothing, []string{"name", "size"}},
	{methodDrop, http.MethodPost, "/v1/pipelines/{name}/tasks/{task}/drop", false, nothing, []string{"tasks"}},
}

// planBody is a plan as a body: {"tasks":[…]}.
type planBody struct{ r *reply }

// MarshalJSON is json.Marshaler's.
func (b *planBody) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Tasks []taskPlan `json:"tasks"`
	}{b.r.Plan})
}

// UnmarshalJSON is json.Unmarshaler's.
func (b *planBody) UnmarshalJSON(text []byte) error {
	var body struct {
		Tasks []taskPlan `json:"tasks"`
	}
	err := json.Unmarshal(text, &body)
	b.r.Plan = body.Tasks
	return err
}

func routeOf(req request) (route, bool) {
	for _, r := range routes {
		if r.method == req.Method {
			return r, true
		}
	}
	return route{}, false
}

// path is where a request goes, with what a GET asks for.
func (r route) path(req request) string {
	task := ""
	if len(req.Tasks) > 0 {
		task = req.Tasks[0]
	}
	path := strings.NewReplacer("{name}", url.PathEscape(req.Pipeline), "{entity}", url.PathEscape(req.Entity), "{task}", url.PathEscape(task)).Replace(r.pattern)
	if r.verb == http.MethodPost {
		return path
	}
	q := url.Values{}
	var at []string
	for dim, index := range req.At {
		at = append(at, fmt.Sprintf("%s=%d", dim, index))
	}
	if len(at) > 0 {
		q.Set("at", strings.Join(at, ","))
	}
	for dim, label := range req.Labels {
		q.Add("label", dim+"="+label)
	}
	if req.Task != "" {
		q.Set("task", req.Task)
	}
	if req.Failed {
		q.Set("failed", "true")
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return path
}

// requestOf is what an HTTP request asks for.
func (r route) requestOf(req *http.Request) (request, error) {
	var out request
	if r.verb == http.MethodPost {
		text, err := io.ReadAll(req.Body)
		if err != nil {
			return out, &RequestError{Message: fmt.Sprintf("a request may have %d bytes: %v", MaxRequest, err)}
		}
		if len(text) > 0 {
			if err := r.read(text, &out); err != nil {
				return out, err
			}
		}
	}
	out.V, out.Method, out.Pipeline = Version, r.method, req.PathValue("name")
	if task := req.PathValue("task"); task != "" && !slices.Contains(out.Tasks, task) {
		out.Tasks = append(out.Tasks, task)
	}
	if r.verb == http.MethodPost {
		return out, nil
	}
	out.Entity = req.PathValue("entity")
	return out, out.query(req.URL.Query())
}

// read reads the body of a POST. A field that it does not take is refused: a
// misspelt "tasks" of a pause would pause all.
func (r route) read(text []byte, out *request) error {
	fields := map[string]json.RawMessage{}
	err := json.Unmarshal(text, &fields)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		return &RequestError{Message: "a request is a JSON object: " + err.Error()}
	}
	for name := range fields {
		if !slices.Contains(r.takes, name) && !slices.Contains(clientFields, name) {
			return &RequestError{Message: fmt.Sprintf("nothing is asked for by %q; there are: %s", name, strings.Join(r.takes, ", "))}
		}
	}
	return nil
}

// clientFields are what a client sends with each request, and the path says.
var clientFields = []string{"v", "method", "pipeline"}

// queryNames are all that a GET can ask by.
var queryNames = []string{"at", "failed", "label", "task"}

// query takes over what a GET asks for.
func (r *request) query(q url.Values) error {
	for name, values := range q {
		if name != "label" && len(values) > 1 {
			return &RequestError{Message: fmt.Sprintf("%s: want it once, not %d times", name, len(values))}
		}
		if !slices.Contains(queryNames, name) {
			return &RequestError{Message: fmt.Sprintf("nothing is asked for by %q; there are: %s", name, strings.Join(queryNames, ", "))}
		}
	}
	r.Task = q.Get("task")
	if text := q.Get("failed"); text != "" {
		failed, err := strconv.ParseBool(text)
		if err != nil {
			return &RequestError{Message: fmt.Sprintf("failed: want true or false, not %q", text)}
		}
		r.Failed = failed
	}
	var dims []string
	for part := range strings.SplitSeq(q.Get("at"), ",") {
		dim, _, _ := strings.Cut(part, "=")
		dims = append(dims, strings.TrimSpace(dim))
	}
	at, err := coord.Parse(q.Get("at"), dims)
	if err != nil {
		return &RequestError{Message: "at: " + err.Error()}
	}
	r.At = at
	for _, text := range q["label"] {
		dim, label, ok := strings.Cut(text, "=")
		if !ok {
			return &RequestError{Message: fmt.Sprintf("label: want dim=label, not %q", text)}
		}
		if r.Labels == nil {
			r.Labels = map[string]string{}
		}
		r.Labels[dim] = label
	}
	return nil
}
