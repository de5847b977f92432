package kind

import (
	"bufio"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"proxylab/lab"
)

// Preflight finds out whether this machine can run a kind lab with that many nodes.
func Preflight(ctx context.Context, nodes int) []lab.Missing {
	if os.Geteuid() != 0 {
		return []lab.Missing{{What: "a kind lab needs root, to run commands on nodes and to measure them", Remedy: "run the command again with sudo"}}
	}
	var missing []lab.Missing
	if _, err := (docker{}).run(ctx, "version", "--format", "{{.Server.Version}}"); err != nil {
		m := lab.Missing{What: err.Error(), Remedy: "docker version must work"}
		_ = errors.As(err, &m)
		missing = append(missing, m)
	}
	if m := inotify("/proc/sys/fs/inotify/max_user_instances", nodes); m != nil {
		missing = append(missing, *m)
	}
	return missing
}

// What a node needs of the kernel's limit on inotify instances, which all nodes share: systemd, containerd, the kubelet and
// what runs in pods hold some. With 128 eight nodes do not come up (https://kind.sigs.k8s.io/docs/user/known-issues).
const (
	inotifyPerNode = 18
	InotifyAdvised = 512 // what kind advises
)

// NodesFor is how many nodes a limit of inotify instances is enough for.
func NodesFor(limit int) int { return limit / inotifyPerNode }

func inotify(path string, nodes int) *lab.Missing {
	limit, err := readInt(path)
	told := err == nil // a kernel that does not tell has its own limits
	if !told || limit >= inotifyPerNode*nodes {
		return nil
	}
	return &lab.Missing{
		What:   fmt.Sprintf("fs.inotify.max_user_instances is %d, too few for %d kind nodes", limit, nodes),
		Remedy: fmt.Sprintf("sysctl -w fs.inotify.max_user_instances=%d", InotifyAdvised),
	}
}

func readInt(path string) (int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// Machine is what a cluster's configuration must allow for.
type Machine struct {
	CgroupV1 bool // the kubelet refuses it unless told
	// NoResource: root lacks CAP_SYS_RESOURCE, and containerd fails when it lowers a process's oom_score_adj.
	NoResource bool
	Inotify    int // limit of instances; 0: not known
}

// Examine looks at this machine.
func Examine() Machine {
	m := Machine{}
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	m.CgroupV1 = err != nil
	m.NoResource = !hasCapability("/proc/self/status", 24)
	m.Inotify, _ = readInt("/proc/sys/fs/inotify/max_user_instances")
	return m
}

// hasCapability says whether a process may ever have the capability of that number. Where it cannot be told, it may.
func hasCapability(status string, number uint) bool {
	f, err := os.Open(status)
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if hex, ok := strings.CutPrefix(lines.Text(), "CapBnd:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return err != nil || set&(1<<number) != 0
		}
	}
	return true
}

// static refuses a binary that needs libraries of this machine: nodes and images do not have them.
func static(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return lab.Missing{What: path + " is linked dynamically, and runs on no node of kind", Remedy: "build it with CGO_ENABLED=0, as make build does"}
		}
	}
	return nil
}
