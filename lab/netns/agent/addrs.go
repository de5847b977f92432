package agent

import (
	"fmt"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"proxylab/lab/netns/fabric"
)

const (
	firstNumber = 2
	lastNumber  = firstNumber + fabric.PodsPerNode - 1
)

// pool hands out the addresses of one node's pods. It goes round, so that an address rests as long as possible before
// somebody else has it.
type pool struct {
	node fabric.Node

	mu    sync.Mutex
	next  int
	users map[int]string // number -> pod
}

func newPool(n fabric.Node) *pool {
	return &pool{node: n, next: firstNumber, users: map[int]string{}}
}

func (p *pool) take(pod string) (fabric.PodAddrs, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range fabric.PodsPerNode {
		number := p.next
		if p.next++; p.next > lastNumber {
			p.next = firstNumber
		}
		if _, taken := p.users[number]; !taken {
			p.users[number] = pod
			return p.node.Pod(number), nil
		}
	}
	return fabric.PodAddrs{}, fmt.Errorf("%s has no pod address left: all %d are in use", p.node.Name, fabric.PodsPerNode)
}

// reserve takes these addresses for a pod. It says false when they are not the node's, or another pod's.
func (p *pool) reserve(pod string, a fabric.PodAddrs) bool {
	number := p.node.Number(a)
	p.mu.Lock()
	defer p.mu.Unlock()
	user, taken := p.users[number]
	if number == 0 || taken && user != pod {
		return false
	}
	p.users[number] = pod
	p.next = max(p.next, number+1)
	if p.next > lastNumber {
		p.next = firstNumber
	}
	return true
}

// free gives back what the pod has.
func (p *pool) free(pod string, a fabric.PodAddrs) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if number := p.node.Number(a); p.users[number] == pod {
		delete(p.users, number)
	}
}

// recorded are the addresses that a pod's status tells of.
func recorded(pod *corev1.Pod) (a fabric.PodAddrs) {
	for _, ip := range pod.Status.PodIPs {
		addr, err := netip.ParseAddr(ip.IP)
		switch {
		case err != nil:
		case addr.Is4():
			a.V4 = addr
		default:
			a.V6 = addr
		}
	}
	return a
}
