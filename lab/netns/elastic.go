package netns

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"proxylab/lab"
	"proxylab/lab/labdir"
	"proxylab/lab/netns/agent"
	"proxylab/lab/netns/fabric"
	"proxylab/lab/procs"
)

var _ lab.Elastic = (*Lab)(nil)

// readyLimit is how long a node may take to be ready.
const readyLimit = time.Minute

// AddNode adds the next node and returns once it is ready.
func (l *Lab) AddNode(ctx context.Context) (lab.Node, error) {
	var added fabric.Node
	err := l.changeNodes(ctx, func(s *state, now *agent.Nodes) error {
		if s.Nodes >= fabric.MaxNodes {
			return fmt.Errorf("it has %d nodes, which is the most", s.Nodes)
		}
		s.Nodes++
		now.Count = s.Nodes
		m := &making{Lab: l, state: *s}
		if err := errors.Join(m.network(ctx), m.balancerNetwork(ctx)); err != nil {
			return err
		}
		nodes := m.plan().Nodes()
		added = nodes[len(nodes)-1]
		return nil
	})
	if err != nil {
		return lab.Node{}, fmt.Errorf("add a node to lab %s: %w", l.Name(), err)
	}
	return toNode(added), l.awaitReady(ctx, added.Name)
}

// RemoveNode takes the last node away, and all that runs there.
func (l *Lab) RemoveNode(ctx context.Context) error {
	p, err := l.plan()
	if err != nil {
		return err
	}
	if p.Count < 2 {
		return fmt.Errorf("lab %s has one node, which stays", l.Name())
	}
	node := p.Nodes()[p.Count-1].Name
	if err := l.removeNode(ctx, node); err != nil {
		return fmt.Errorf("remove %s from lab %s: %w", node, l.Name(), err)
	}
	return nil
}

func (l *Lab) removeNode(ctx context.Context, node string) error {
	if err := l.StopProxier(ctx, node); err != nil {
		return err
	}
	client, err := l.client()
	if err != nil {
		return err
	}
	if err := client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err := emptyNode(ctx, client, node); err != nil {
		return err
	}
	err = l.changeNodes(ctx, func(s *state, now *agent.Nodes) error {
		s.Nodes--
		now.Count = s.Nodes
		now.Dead = slices.DeleteFunc(now.Dead, func(n string) bool { return n == node })
		return nil
	})
	if err != nil {
		return err
	}
	// The agent may have registered it once more before it was told.
	if err := client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return errors.Join(fabric.RemoveNode(l.Name(), node, mountDir(l.Name())), os.RemoveAll(labdir.Node(l.Name(), node)))
}

// emptyNode deletes the pods of a node, and returns when the API has none.
func emptyNode(ctx context.Context, client kubernetes.Interface, node string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lab.Patience(readyLimit), errors.New("its pods stay"))
	defer cancel()
	atOnce := int64(0)
	for {
		pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return nil
		}
		for _, p := range pods.Items {
			err := client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &atOnce})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		if err := procs.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// KillNode takes a node's power away.
func (l *Lab) KillNode(ctx context.Context, name string) error {
	n, err := l.node(name)
	if err != nil {
		return err
	}
	err = errors.Join(
		fabric.SetLink(l.Name(), n.Name, false), // first: what else happens, nobody else is to see
		l.changeNodes(ctx, func(_ *state, now *agent.Nodes) error {
			if !slices.Contains(now.Dead, name) {
				now.Dead = append(now.Dead, name)
			}
			return nil
		}),
		procs.Stop(ctx, l.Name(), proxierPart(name), 0))
	if rm := os.Remove(l.proxierFile(name)); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	if err != nil {
		return fmt.Errorf("kill %s of lab %s: %w", name, l.Name(), err)
	}
	return nil
}

// ReviveNode gives a node its power back.
func (l *Lab) ReviveNode(ctx context.Context, name string) error {
	n, err := l.node(name)
	if err != nil {
		return err
	}
	err = errors.Join(
		fabric.SetLink(l.Name(), n.Name, true),
		l.changeNodes(ctx, func(_ *state, now *agent.Nodes) error {
			now.Dead = slices.DeleteFunc(now.Dead, func(n string) bool { return n == name })
			return nil
		}))
	if err == nil {
		err = l.awaitReady(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("revive %s of lab %s: %w", name, l.Name(), err)
	}
	return nil
}

// changeNodes changes which nodes there are, and tells the agent. One does so at a time.
func (l *Lab) changeNodes(ctx context.Context, change func(*state, *agent.Nodes) error) error {
	unlock, err := labdir.Lock(ctx, l.Name(), func() {})
	if err != nil {
		return err
	}
	defer unlock()
	s, err := loadState(l.Name())
	if err != nil {
		return err
	}
	now := agent.Nodes{Count: s.Nodes}
	if err := readJSON(l.nodesFile(), &now); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := change(&s, &now); err != nil {
		return err
	}
	if err := errors.Join(s.save(), labdir.WriteJSON(l.nodesFile(), now)); err != nil {
		return err
	}
	p, err := procs.Root(l.Name(), agentPart)
	if err != nil {
		return err
	}
	if p == nil {
		return fmt.Errorf("its node agent does not run, see %s", filepath.Base(labdir.Log(l.Name(), agentPart)))
	}
	return unix.Kill(p.PID, unix.SIGHUP)
}

// awaitReady waits until the API calls a node ready.
func (l *Lab) awaitReady(ctx context.Context, name string) error {
	client, err := l.client()
	if err != nil {
		return err
	}
	limit := lab.Patience(readyLimit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s is not ready after %s", name, limit))
	defer cancel()
	for {
		n, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && readyNodes([]corev1.Node{*n}) == 1 {
			return nil
		}
		if procs.Sleep(ctx, 25*time.Millisecond) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}
