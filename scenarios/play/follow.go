package play

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"
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
		var (
			offset int64
			rest   []byte
		)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for last := false; ; {
			offset, rest = readLines(path, offset, rest, f)
			if last {
				return
			}
			select {
			case <-ticker.C:
			case <-quit:
				last = true
			}
		}
	}()
	return w
}

func (w *follower) close() {
	w.stop()
	<-w.done
}

// readLines hands on the complete lines behind offset and returns where it got to, with the begun line.
func readLines(path string, offset int64, rest []byte, f func([]byte)) (int64, []byte) {
	file, err := os.Open(path)
	if err != nil {
		return offset, rest // not there yet
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return offset, rest
	}
	data, err := io.ReadAll(file)
	if err != nil && !errors.Is(err, io.EOF) {
		return offset, rest
	}
	offset += int64(len(data))
	rest = append(rest, data...)
	for {
		line, after, complete := bytes.Cut(rest, []byte{'\n'})
		if !complete {
			return offset, rest
		}
		if len(bytes.TrimSpace(line)) > 0 {
			f(line)
		}
		rest = after
	}
}
