// Package control lets other processes ask a running engine: where the run
// stands, its values and logs, and to pause, resume or quit.
//
// The engine holds its state directory alone, so whoever wants to read it
// while a run is on has to ask. The engine's program listens on a Unix socket
// in the state directory ([Listen], [Serve]); others reach it with [Dial],
// which gives a [Client]: an engine.View that also pauses, resumes, sets pools and quits.
//
// # Protocol
//
// A connection carries requests and answers as JSON, one object a line, in
// UTF-8, one request at a time. A request names the protocol's version and a
// method:
//
//	{"v":1,"method":"values","entity":"Word","at":{"input_no":0}}
//
// An answer is any number of lines, the last of which holds "done" or "error":
//
//	{"dims":["input_no","word_no"]}
//	{"item":{"coord":[0,0],"json":"Good"}}
//	{"found":{"dims":["input_no","word_no"],"have":1,"want":1,"known":true},"done":true}
//
// Methods are hello, status, values, logs, plan, pause, resume, pool, drop and
// quit. Values and
// logs come one a line, whatever their number. A file value and a log travel as
// a path: both sides are on one machine.
//
// # Many pipelines
//
// A host of package serve answers in the same way on a socket in its state root
// ([ListenHost], [ServeHost], [DialHost]): a request names its pipeline. It has
// two methods more, pipelines and session. After session the connection carries
// one submission: commands of package serve come in, a line each, and what is
// said goes out as lines with one of answer, event, gap, summary or error.
//
// [ServeHTTP] is the same over HTTP/1, by the same handlers: the table in
// route.go has the routes. Status, plan and pipelines are JSON bodies; values,
// logs and sessions are lines, application/x-ndjson, as on the socket. A failed
// request has a status from 400 on and the body {"error":{…}}. GET /metrics has
// the text format of Prometheus, GET /healthz says ok.
//
// Every request but that for /healthz carries the token of [NewToken]; each must
// name this server in Host and, if there is one, in Origin. Bodies, headers,
// connections and all waiting are bounded, and so is what unfinished submissions
// hold together (serve.MaxHeld). Who is refused for the token, the name or a
// malformed request is disconnected, and gives its place back at once.
//
// # Caveats
//
// Nothing that a client does can harm the engine: what it sends is bounded
// ([MaxRequest]), so are the connections ([MaxConns]), and a client that does
// not read for [WriteTimeout] is dropped. An answer is taken from the engine as
// fast as it gives it, into memory and then a temporary file, before it is sent:
// the engine, which may hold its stores open meanwhile, never waits for who
// reads slowly. The price is that the first value comes when the last was read.
//
// The socket is open to the user alone (mode 0600, in a folder of mode 0700).
// There is no other protection: who may open it may end the run. HTTP is not
// encrypted, which is why [ListenHTTP] wants a loopback address. Paths of files
// and logs are of the server's machine.
//
// A JSON value nested deeper than 10,000 levels does not pass.
package control
