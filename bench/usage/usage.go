// Package usage reads what processes cost: CPU time and memory of a process with all its descendants, and the
// network time of the kernel that no process is charged for.
package usage

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone is why a process could not be read: it has ended, or its pid belongs to another one by now.
var ErrGone = errors.New("the process is gone")

// Sample is what a process tree costs so far.
type Sample struct {
	// CPUSeconds is user and system time, in steps of 10 ms, of the root and its living descendants, and of all
	// descendants that ended and were waited for. What was orphaned has left the tree.
	CPUSeconds float64
	// RSSBytes is the resident memory of the tree's living processes. A page that two of them share counts twice.
	RSSBytes int64
	// MaxRSSBytes is the most memory seen so far: of RSSBytes, and of what the kernel knows as the root's own peak.
	MaxRSSBytes int64
}

// Tree reads the tree below pid. Where the process does not exist, the error is ErrGone. A process that has ended
// but was not waited for yet still has its CPU time, with no memory.
func Tree(pid int) (Sample, error) {
	s, _, err := procfs("/proc").tree(pid)
	return s, err
}

// Process reads what a process costs by itself, without its children. Where it does not exist, the error is ErrGone.
func Process(pid int) (Sample, error) {
	fs := procfs("/proc")
	p, err := fs.stat(pid)
	if err != nil {
		return Sample{}, err
	}
	s := Sample{CPUSeconds: p.cpu, RSSBytes: p.rss, MaxRSSBytes: p.rss}
	if peak, ok := fs.peak(pid); ok {
		s.MaxRSSBytes = max(s.MaxRSSBytes, peak)
	}
	return s, nil
}

// attempts bounds how often a tree is read again because it changed under the reader's hands.
const attempts = 5

// tree reads a tree so that nothing counts twice. A child that ends and is waited for meanwhile, whose time moves to
// its parent, counts as little as possible: not at all. When that is seen to have happened, the tree is read again.
func (fs procfs) tree(pid int) (s Sample, root process, err error) {
	for range attempts {
		var stable bool
		s, root, stable, err = fs.treeOnce(pid)
		if err != nil || stable {
			break
		}
	}
	return s, root, err
}

func (fs procfs) treeOnce(pid int) (s Sample, root process, stable bool, err error) {
	root, err = fs.stat(pid)
	if err != nil {
		return Sample{}, process{}, false, err
	}
	tree, err := fs.descendants(root)
	if err != nil {
		return Sample{}, process{}, false, err
	}
	for _, p := range tree {
		s.CPUSeconds += p.cpu + p.waited
		s.RSSBytes += p.rss
	}
	s.MaxRSSBytes = s.RSSBytes
	if peak, ok := fs.peak(pid); ok {
		s.MaxRSSBytes = max(s.MaxRSSBytes, peak)
	}
	stable = true
	for _, p := range tree[:len(tree)-1] { // nothing was read after the last
		now, err := fs.stat(p.pid)
		if err != nil || now.started != p.started || now.waited != p.waited {
			stable = false
		}
	}
	return s, root, stable, nil
}

// descendants returns root and everything below it, each read after its parent. A child whose time was in its
// parent's when that was read is then gone, or in the state X in which the kernel takes it away, and is left out.
func (fs procfs) descendants(root process) ([]process, error) {
	children := fs.children
	if !fs.listsChildren(root.pid) {
		everyone, err := fs.all()
		if err != nil {
			return nil, err
		}
		below := map[int][]int{}
		for _, p := range everyone {
			below[p.parent] = append(below[p.parent], p.pid)
		}
		children = func(pid int) ([]int, error) { return below[pid], nil }
	}
	tree := []process{root}
	for i := 0; i < len(tree); i++ {
		pids, err := children(tree[i].pid)
		if err != nil {
			return nil, err
		}
		for _, pid := range pids {
			p, err := fs.stat(pid)
			if err != nil && !errors.Is(err, ErrGone) {
				return nil, err
			}
			if err == nil && p.state != 'X' && p.parent == tree[i].pid { // not another one with its pid
				tree = append(tree, p)
			}
		}
	}
	return tree, nil
}

// Watch reads the tree below pid now, at each interval, and once more when ctx ends, which is how it ends well. Each
// sample goes to emit, called by one goroutine: CPUSeconds and MaxRSSBytes never fall from one to the next, so that
// the last one is what the tree cost as far as is known. When the process ends first, that last sample stands, and
// Watch returns ErrGone; what was spent after it is not known.
func Watch(ctx context.Context, pid int, interval time.Duration, emit func(Sample)) error {
	return procfs("/proc").watch(ctx, pid, interval, emit)
}

func (fs procfs) watch(ctx context.Context, pid int, interval time.Duration, emit func(Sample)) error {
	if interval <= 0 {
		return fmt.Errorf("watch process %d: the interval is %v, and must be above 0", pid, interval)
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var first process
	var last Sample
	for n := 0; ; n++ {
		s, root, err := fs.tree(pid)
		if err == nil && n > 0 && root.started != first.started {
			err = fmt.Errorf("process %d: %w: another process has its pid", pid, ErrGone)
		}
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		if n == 0 {
			first = root
		}
		s.CPUSeconds = max(s.CPUSeconds, last.CPUSeconds)
		s.MaxRSSBytes = max(s.MaxRSSBytes, last.MaxRSSBytes)
		last = s
		emit(s)
		if root.ended() {
			return fmt.Errorf("watch: process %d: %w", pid, ErrGone)
		}
		if ctx.Err() != nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// Memory sums the resident memory of processes, in bytes. Those that are gone count nothing; when all are, the
// error is ErrGone.
func Memory(pids ...int) (int64, error) {
	var sum int64
	found := false
	for _, pid := range pids {
		p, err := procfs("/proc").stat(pid)
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return 0, err
		}
		sum += p.rss
		found = true
	}
	if !found {
		return 0, fmt.Errorf("memory of processes %v: %w", pids, ErrGone)
	}
	return sum, nil
}

// Softirq is how many seconds all CPUs of this machine together spent in soft interrupts since it booted, which is
// where the kernel forwards packets. It has steps of 10 ms.
func Softirq() (float64, error) {
	return procfs("/proc").softirq()
}

// CPUs is how many CPUs this process may use.
func CPUs() int { return runtime.NumCPU() }

// Kernel is the release of the running kernel, as uname -r says it.
func Kernel() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", fmt.Errorf("uname: %w", err)
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}
