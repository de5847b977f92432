package usage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// userHz is the unit of the times that Linux reports in /proc, on every architecture that Go knows (proc(5),
// sysconf(_SC_CLK_TCK)).
const userHz = 100

// procfs is the directory where a proc file system is mounted.
type procfs string

// process is one line of /proc/<pid>/stat.
type process struct {
	pid, parent int
	state       byte
	started     uint64  // clock ticks after boot: tells two processes with the same pid apart
	cpu         float64 // seconds, of all threads
	waited      float64 // seconds, of children that were waited for, and theirs
	rss         int64   // bytes
}

// ended: it has, and its parent has not waited for it yet.
func (p process) ended() bool { return p.state == 'Z' || p.state == 'X' }

// stat reads one process. A process that does not exist gives ErrGone.
func (fs procfs) stat(pid int) (process, error) {
	path := filepath.Join(string(fs), strconv.Itoa(pid), "stat")
	line, err := os.ReadFile(path)
	if gone(err) {
		return process{}, fmt.Errorf("process %d: %w", pid, ErrGone)
	}
	if err != nil {
		return process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	p, err := parseStat(line)
	if err != nil {
		return process{}, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// gone tells whether reading a file of a process failed because the process is no more: its directory may vanish
// before the file is opened, or between that and the read.
func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// parseStat reads "pid (command) state ppid ...". The command may hold blanks and parentheses.
func parseStat(line []byte) (process, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return process{}, fmt.Errorf("no command in %.80q", line)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:open])))
	if err != nil {
		return process{}, fmt.Errorf("no pid in %.80q", line)
	}
	f := strings.Fields(string(line[end+1:]))
	const firstField, lastField = 3, 24 // numbers of proc(5): f[0] is field 3, the state
	if len(f) <= lastField-firstField {
		return process{}, fmt.Errorf("too few fields in %.200q", line)
	}
	var bad error
	number := func(field int) int64 {
		n, err := strconv.ParseInt(f[field-firstField], 10, 64)
		if err != nil {
			bad = fmt.Errorf("field %d of %.200q: %w", field, line, err)
		}
		return n
	}
	p := process{
		pid:     pid,
		parent:  int(number(4)),
		state:   f[0][0],
		cpu:     float64(number(14)+number(15)) / userHz,
		waited:  float64(number(16)+number(17)) / userHz,
		started: uint64(number(22)),
		rss:     number(24) * int64(os.Getpagesize()),
	}
	return p, bad
}

// peak is the most memory that a process ever held (VmHWM), in bytes. ok is false for a process that has none or is
// gone.
func (fs procfs) peak(pid int) (bytes int64, ok bool) {
	status, err := os.ReadFile(filepath.Join(string(fs), strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

// listsChildren tells whether this kernel lists the children of a process (CONFIG_PROC_CHILDREN).
func (fs procfs) listsChildren(pid int) bool {
	id := strconv.Itoa(pid)
	_, err := os.Stat(filepath.Join(string(fs), id, "task", id, "children"))
	return err == nil
}

// children lists the children of a process, which the kernel keeps by the thread that made them. One may be missing
// when another ends meanwhile.
func (fs procfs) children(pid int) ([]int, error) {
	tasks := filepath.Join(string(fs), strconv.Itoa(pid), "task")
	threads, err := os.ReadDir(tasks)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("threads of process %d: %w", pid, err)
	}
	var found []int
	for _, thread := range threads {
		list, err := os.ReadFile(filepath.Join(tasks, thread.Name(), "children"))
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("children of process %d: %w", pid, err)
		}
		for _, field := range strings.Fields(string(list)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("children of process %d: %w", pid, err)
			}
			found = append(found, child)
		}
	}
	return found, nil
}

// all reads every process there is. Those that end meanwhile are left out.
func (fs procfs) all() ([]process, error) {
	entries, err := os.ReadDir(string(fs))
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, err := fs.stat(pid)
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	return found, nil
}

// softirq reads the seconds that all CPUs together spent in soft interrupts since boot.
func (fs procfs) softirq() (float64, error) {
	path := filepath.Join(string(fs), "stat")
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("soft interrupt time: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		const softirq = 7 // cpu user nice system idle iowait irq softirq
		if len(f) <= softirq || f[0] != "cpu" {
			continue
		}
		ticks, err := strconv.ParseInt(f[softirq], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("soft interrupt time: %s: %w", path, err)
		}
		return float64(ticks) / userHz, nil
	}
	return 0, fmt.Errorf("soft interrupt time: %s has no line for all CPUs", path)
}
