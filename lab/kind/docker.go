package kind

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"proxylab/lab"
)

// kind's own labels of the containers that it makes, and its network (pkg/cluster/internal/providers/docker).
const (
	clusterLabel = "io.x-k8s.kind.cluster"
	roleLabel    = "io.x-k8s.kind.role"
	network      = "kind"
	labLabel     = "proxylab.io/lab" // of what is not kind's
)

// docker runs Docker's own program, as kind does: what DOCKER_HOST and the context say holds for both.
type docker struct{}

// container is one that runs, as Docker knows it.
type container struct {
	ID, Name, Image string
	PID             int // on this machine; 0: it does not run
	Role            string
	Addresses       []netip.Addr // IPv4 first
}

// root is where the files of a container that runs are.
func (c container) root(path string) string {
	return filepath.Join("/proc", strconv.Itoa(c.PID), "root", path)
}

// ns is the file of one of its namespaces: "net", "mnt", "pid".
func (c container) ns(kind string) string {
	return filepath.Join("/proc", strconv.Itoa(c.PID), "ns", kind)
}

func allRun(all []container) bool {
	return !slices.ContainsFunc(all, func(c container) bool {
		_, err := os.Stat(c.ns("net"))
		return err != nil
	})
}

// run runs docker and returns what it printed. What Docker cannot do on this machine at all is a lab.Missing.
func (docker) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "docker", args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil {
		return stdout.Bytes(), nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("docker %s: %w", strings.Join(args, " "), context.Cause(ctx))
	}
	if m, known := refusalOf(err, stderr.String()); known {
		return nil, m
	}
	return nil, fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
}

// refusalOf recognises why Docker can do nothing.
func refusalOf(err error, said string) (lab.Missing, bool) {
	said = strings.TrimSpace(said)
	lower := strings.ToLower(said)
	switch {
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		return lab.Missing{What: "a kind lab needs Docker, and there is no program docker",
			Remedy: "apt-get install docker.io, or https://docs.docker.com/engine/install; without it use --lab netns"}, true
	case strings.Contains(lower, "permission denied") && strings.Contains(lower, "docker"):
		return lab.Missing{What: "Docker refuses this user: " + said, Remedy: "run the command again with sudo"}, true
	case strings.Contains(lower, "cannot connect to the docker daemon"), strings.Contains(lower, "is the docker daemon running"):
		return lab.Missing{What: "Docker does not run: " + said,
			Remedy: "start it: systemctl start docker, or make docker-up where there is no systemd; or use --lab netns"}, true
	}
	return lab.Missing{}, false
}

// gone recognises that an object was not there to be removed.
func gone(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "No such ") || strings.Contains(err.Error(), "not found"))
}

// list returns the ids of the containers with a label, also of those that do not run.
func (d docker) list(ctx context.Context, label, value string) ([]string, error) {
	out, err := d.run(ctx, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label="+label+"="+value)
	return strings.Fields(string(out)), err
}

// nodes are the containers of a cluster that are nodes: workers first, then those with a control plane, each by name.
func (d docker) nodes(ctx context.Context, cluster string) ([]container, error) {
	ids, err := d.list(ctx, clusterLabel, cluster)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	out, err := d.run(ctx, append([]string{"inspect", "--type=container"}, ids...)...)
	if err != nil {
		return nil, err
	}
	return readNodes(out)
}

// inspected is what docker inspect prints of a container.
type inspected struct {
	ID     string `json:"Id"`
	Name   string
	State  struct{ Pid int }
	Config struct {
		Image  string
		Labels map[string]string
	}
	NetworkSettings struct {
		Networks map[string]struct{ IPAddress, GlobalIPv6Address string }
	}
}

func readNodes(data []byte) ([]container, error) {
	var all []inspected
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("docker inspect: %w", err)
	}
	var nodes []container
	for _, i := range all {
		c := i.container()
		if c.Role == "worker" || c.Role == "control-plane" { // and no load balancer before several control planes
			nodes = append(nodes, c)
		}
	}
	slices.SortFunc(nodes, func(a, b container) int {
		// worker, worker2, ... worker10
		return cmp.Or(-cmp.Compare(a.Role, b.Role), cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return nodes, nil
}

// readOne reads what docker inspect prints of one container.
func readOne(data []byte) (container, error) {
	var all []inspected
	if err := json.Unmarshal(data, &all); err != nil {
		return container{}, fmt.Errorf("docker inspect: %w", err)
	}
	if len(all) != 1 {
		return container{}, fmt.Errorf("docker inspect: %d containers where one was asked for", len(all))
	}
	return all[0].container(), nil
}

func (i inspected) container() container {
	c := container{ID: i.ID, Name: strings.TrimPrefix(i.Name, "/"), Image: i.Config.Image, PID: i.State.Pid, Role: i.Config.Labels[roleLabel]}
	for _, n := range i.NetworkSettings.Networks {
		for _, text := range []string{n.IPAddress, n.GlobalIPv6Address} {
			if a, err := netip.ParseAddr(text); err == nil {
				c.Addresses = append(c.Addresses, a)
			}
		}
	}
	slices.SortFunc(c.Addresses, func(a, b netip.Addr) int { return a.Compare(b) }) // IPv4 is less
	return c
}

// remove removes containers with a label, and their volumes.
func (d docker) remove(ctx context.Context, label, value string) error {
	for {
		ids, err := d.list(ctx, label, value)
		if err != nil || len(ids) == 0 {
			return err
		}
		if _, err := d.run(ctx, append([]string{"rm", "--force", "--volumes"}, ids...)...); err != nil && !gone(err) {
			return err
		}
	}
}

func (d docker) hasNetwork(ctx context.Context) (bool, error) {
	out, err := d.run(ctx, "network", "ls", "--quiet", "--filter", "name=^"+network+"$")
	return len(bytes.TrimSpace(out)) > 0, err
}

// subnets are those of kind's network.
func (d docker) subnets(ctx context.Context) ([]netip.Prefix, error) {
	out, err := d.run(ctx, "network", "inspect", network, "--format", "{{range .IPAM.Config}}{{.Subnet}} {{end}}")
	if err != nil {
		return nil, err
	}
	var all []netip.Prefix
	for _, text := range strings.Fields(string(out)) {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("docker network inspect %s: %w", network, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// removeNetwork removes kind's network, unless somebody is in it.
func (d docker) removeNetwork(ctx context.Context) error {
	_, err := d.run(ctx, "network", "rm", network)
	if err != nil && !gone(err) && !strings.Contains(err.Error(), "active endpoints") {
		return err
	}
	return nil
}

// ensureImage has an image on this machine, from its registry if need be.
func (d docker) ensureImage(ctx context.Context, image string) error {
	_, err := d.run(ctx, "image", "inspect", image)
	if err == nil || !gone(err) {
		return err
	}
	if _, err := d.run(ctx, "pull", "--quiet", image); err != nil {
		if m := (lab.Missing{}); errors.As(err, &m) || ctx.Err() != nil {
			return err
		}
		return lab.Missing{What: fmt.Sprintf("the node image %s is not on this machine and cannot be had: %v", image, err),
			Remedy: "name another with --image (docker image ls), or make one without a registry: make node-image"}
	}
	return nil
}
