package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proxylab/lab"
	"proxylab/lab/procs"
)

// self is the name by which a command asks for this binary.
const self = "proxylab"

// nodeEnv is the environment of commands on a node: its own programs, found where Debian has them.
var nodeEnv = []string{"PATH=" + strings.Join(nodePath, ":"), "HOME=/root", "LANG=C.UTF-8"}

var nodePath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// Exec starts a command on a node, as docker exec would but as this process's own child: in the node's network, files and
// process numbers, with the node's programs. In a pod and outside it starts one of this machine's programs in the network
// of the place alone. It gets a process group of its own, which is killed when ctx ends.
func (l *Lab) Exec(ctx context.Context, where lab.Place, c lab.Command) (lab.Process, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("exec: no command given")
	}
	fail := func(err error) (lab.Process, error) { return nil, fmt.Errorf("exec %q: %w", c.Args, err) }
	if where.Node != "" {
		if where.Pod != "" {
			return fail(fmt.Errorf("place %+v: a node or a pod, not both", where))
		}
		n, err := l.node(ctx, where.Node)
		if err != nil {
			return fail(err)
		}
		program, err := n.lookPath(c.Args[0])
		if err != nil {
			return fail(err)
		}
		return procs.Exec(ctx, l.onNode(n, "exec/node/"+n.Name), program, nodeEnv, c)
	}
	program := c.Args[0]
	if program == self {
		program = l.opts.Executable
	}
	s := procs.Spec{Lab: l.Name(), Part: "exec/outside"}
	if where.Pod == "" {
		o, err := l.outsideClient(ctx)
		if err != nil {
			return fail(err)
		}
		s.NetNS = o.ns("net")
	} else {
		pid, err := l.podProcess(ctx, where)
		if err != nil {
			return fail(err)
		}
		s.Part, s.NetNS = "exec/pod", container{PID: pid}.ns("net")
	}
	return procs.Exec(ctx, s, program, os.Environ(), c)
}

// onNode are the namespaces of a node.
func (l *Lab) onNode(n container, part string) procs.Spec {
	return procs.Spec{Lab: l.Name(), Part: part, NetNS: n.ns("net"), MountNS: n.ns("mnt"), PIDNS: n.ns("pid")}
}

// lookPath finds a program of the node, as the node calls it. Links are not followed: they lead elsewhere from here.
func (c container) lookPath(program string) (string, error) {
	if program == self {
		return nodeBinary, nil
	}
	if strings.Contains(program, "/") {
		return program, nil
	}
	for _, dir := range nodePath {
		file := filepath.Join(dir, program)
		if info, err := os.Lstat(c.root(file)); err == nil && !info.IsDir() {
			return file, nil
		}
	}
	return "", &exec.Error{Name: program, Err: exec.ErrNotFound}
}

// podProcess is a process of a pod, with its number on this machine.
func (l *Lab) podProcess(ctx context.Context, where lab.Place) (int, error) {
	if where.Namespace == "" {
		where.Namespace = metav1.NamespaceDefault
	}
	c, err := l.api()
	if err != nil {
		return 0, err
	}
	pod, err := c.CoreV1().Pods(where.Namespace).Get(ctx, where.Pod, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("pod %s/%s: %w", where.Namespace, where.Pod, err)
	}
	if pod.Spec.HostNetwork {
		n, err := l.node(ctx, pod.Spec.NodeName)
		return n.PID, err
	}
	pid, err := inCgroupOfPod("/proc", string(pod.UID))
	if err != nil {
		return 0, fmt.Errorf("pod %s/%s: %w", where.Namespace, where.Pod, err)
	}
	return pid, nil
}

// inCgroupOfPod finds a process in the control group of a pod. That has the pod's UID in its name, with underscores where
// systemd makes it (pkg/kubelet/cm of Kubernetes); the sandbox's process is in it for as long as the pod runs.
func inCgroupOfPod(proc, uid string) (int, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && inCgroup(filepath.Join(proc, e.Name()), uid) {
			return pid, nil
		}
	}
	return 0, errors.New("no process of it runs on this machine")
}

// inCgroup says whether a process, by its directory, is in the control group of a pod.
func inCgroup(process, uid string) bool {
	groups, err := os.ReadFile(filepath.Join(process, "cgroup")) // an error: it has ended
	return err == nil && (strings.Contains(string(groups), "pod"+uid) || strings.Contains(string(groups), "pod"+strings.ReplaceAll(uid, "-", "_")))
}
