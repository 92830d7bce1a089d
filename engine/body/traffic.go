package body

// Traffic says what passed between the engine and a worker.
type Traffic uint8

const (
	TrafficRequest Traffic = iota // the engine wrote it
	TrafficAnswer                 // the worker answered it
	TrafficError                  // the worker printed it to standard error
)

// tell tells who listens of what passed.
func (c *common) tell(what Traffic, text []byte) {
	if c.cfg.Traffic != nil {
		c.cfg.Traffic(what, c.secrets.hide(text))
	}
}

// overheard is a log that is listened to.
type overheard struct {
	log  *workerLog
	tell func(what Traffic, text []byte)
}

// Write implements io.Writer.
func (o overheard) Write(p []byte) (int, error) {
	if len(p) > 0 {
		o.tell(TrafficError, p)
	}
	return o.log.Write(p)
}
