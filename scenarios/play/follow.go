package play

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// follower reads a file of lines as it grows.
type follower struct {
	stop func()
	done chan struct{}
}

// followFile hands each line of the file to f, from one goroutine. The file need not be there yet. close reads what
// is there to its end before it returns.
func followFile(path string, f func(line []byte)) *follower {
	quit := make(chan struct{})
	var once sync.Once
	w := &follower{stop: func() { once.Do(func() { close(quit) }) }, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		lines := &growingLines{path: path, handle: f}
		defer lines.close()
		for lines.read(); lines.await(quit); lines.read() {
			continue
		}
		lines.read()
	}()
	return w
}

func (w *follower) close() {
	w.stop()
	<-w.done
}

// growingLines hands on the lines of a file as they become complete.
type growingLines struct {
	path   string
	handle func([]byte)
	file   *os.File          // nil: it is not there yet
	grown  *fsnotify.Watcher // tells that file has grown; nil: nothing tells
	begun  []byte            // the last line, as far as it is there
}

// How often a file is looked at: one that something tells of, in case that it does not tell, and another.
const (
	lookSometimes = time.Second
	lookOften     = 100 * time.Millisecond
)

// await returns when there may be more to read, or false when quit is closed.
func (g *growingLines) await(quit <-chan struct{}) bool {
	interval := lookOften
	var changed <-chan fsnotify.Event
	var failed <-chan error
	if g.grown != nil {
		interval, changed, failed = lookSometimes, g.grown.Events, g.grown.Errors
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	select {
	case <-quit:
		return false
	case <-changed:
	case err := <-failed: // too many changes to tell, say: there is something to read
		slog.Debug("watching a file of reports", "file", g.path, "error", err)
	case <-timer.C:
	}
	return true
}

// open opens the file, if it is there.
func (g *growingLines) open() bool {
	file, err := os.Open(g.path)
	if err != nil {
		return false
	}
	g.file = file
	if w, err := fsnotify.NewWatcher(); err == nil {
		if err = w.Add(g.path); err == nil {
			g.grown = w
		} else {
			_ = w.Close() // nothing was written through it
		}
	}
	return true
}

// read hands on the lines that are complete by now.
func (g *growingLines) read() {
	if g.file == nil && !g.open() {
		return
	}
	data, err := io.ReadAll(g.file)
	if err != nil {
		slog.Debug("read a file that grows", "path", g.path, "error", err)
	}
	g.begun = append(g.begun, data...)
	for {
		line, after, complete := bytes.Cut(g.begun, []byte{'\n'})
		if !complete {
			return
		}
		if len(bytes.TrimSpace(line)) > 0 {
			g.handle(line)
		}
		g.begun = after
	}
}

func (g *growingLines) close() {
	if g.file != nil {
		_ = g.file.Close() // it was only read
	}
	if g.grown != nil {
		_ = g.grown.Close()
	}
}
