package body

// Slot is what one of the engine's -j slots keeps between jobs. Its methods and
// every Run on it must be called from the goroutine that made it.
type Slot struct{}
