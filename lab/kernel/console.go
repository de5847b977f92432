package kernel

import (
	"bytes"
	"strings"
	"sync"
)

// console keeps the end of what a kernel says.
type console struct {
	panicked func() // called once, when the kernel says that it cannot go on

	mu   sync.Mutex
	text []byte
	dead bool
}

const (
	consoleBytes = 16 << 10
	consoleLines = 25
)

// Write looks for a panic: the first process of a process-id namespace, which the kernel is, cannot abort itself, and
// would try for ever.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return len(p), nil
	}
	c.text = append(c.text, p...)
	if at := bytes.Index(c.text, []byte("Kernel panic - ")); at >= 0 {
		if line := bytes.IndexByte(c.text[at:], '\n'); line >= 0 {
			c.text = c.text[:at+line] // a trace of calls follows, and no user's cause is in there
			c.dead = true
			c.panicked()
		}
	}
	if over := len(c.text) - consoleBytes; over > 0 {
		c.text = append(c.text[:0], c.text[over:]...)
	}
	return len(p), nil
}

// String is the last lines.
func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(c.text)), "\n")
	return strings.Join(lines[max(0, len(lines)-consoleLines):], "\n")
}
