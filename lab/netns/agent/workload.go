package agent

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"proxylab/lab/netns/echo"
)

// Images that the lab has a behaviour for.
const (
	echoImage   = "proxylab/echo"
	clientImage = "proxylab/client"
)

// Reasons of containers that wait, and of the events about it. Where kubelet has a word for it, it is kubelet's.
const (
	reasonImage       = "ImageNotInLab"
	reasonHostNetwork = "HostNetworkNotSupported"
	reasonInit        = "InitContainersNotSupported"
	reasonArguments   = "InvalidArguments"
	reasonCreating    = "ContainerCreating"
	reasonSandbox     = "FailedCreatePodSandBox"
	reasonRun         = "RunContainerError"
	reasonUnhealthy   = "Unhealthy"
)

// container is what the lab runs for one container of a pod.
type container struct {
	name    string
	serves  bool // else it is a client: a network with nothing listening
	options echo.Options
	// readyAfter is how long after its start a readiness probe would succeed for the first time; never: not at all.
	readyAfter time.Duration
	never      string // why it is never ready; empty: it will be
}

// refusal is why a container of a pod cannot run here.
type refusal struct {
	container       string // empty: all of them
	reason, message string
}

func (r refusal) Error() string { return r.message }

// workload reads a pod's containers. Its error joins one refusal for each container that cannot run.
func workload(pod *corev1.Pod) ([]container, error) {
	if pod.Spec.HostNetwork {
		return nil, refusal{reason: reasonHostNetwork, message: "hostNetwork: a node of the netns lab runs no pods in its own network; use --lab kind"}
	}
	if len(pod.Spec.InitContainers) > 0 {
		return nil, refusal{reason: reasonInit, message: "initContainers: the netns lab runs none; use --lab kind"}
	}
	var all []container
	var errs []error
	for _, c := range pod.Spec.Containers {
		one, err := readContainer(pod, c)
		if err != nil {
			errs = append(errs, err)
		}
		all = append(all, one)
	}
	return all, errors.Join(errs...)
}

func readContainer(pod *corev1.Pod, c corev1.Container) (container, error) {
	switch imageName(c.Image) {
	case clientImage:
		return container{name: c.Name}, nil
	case echoImage:
	default:
		return container{}, refusal{c.Name, reasonImage, fmt.Sprintf(
			"image %s: the netns lab runs only %s and %s; use --lab kind for other images", c.Image, echoImage, clientImage)}
	}
	if len(c.Command) > 0 {
		return container{}, refusal{c.Name, reasonArguments, fmt.Sprintf("%s: command is not supported, only args", echoImage)}
	}
	o, err := echo.Parse(c.Args)
	if err != nil {
		message := strings.ReplaceAll(err.Error(), "\n", "; ")
		return container{}, refusal{c.Name, reasonArguments, echoImage + ": " + message}
	}
	o.Pod, o.Namespace, o.Node = pod.Name, pod.Namespace, pod.Spec.NodeName
	one := container{name: c.Name, serves: true, options: o, readyAfter: o.SlowStart}
	if o.NotReady {
		one.never = "never ready: its arguments say --not-ready"
	}
	if p := c.ReadinessProbe; p != nil {
		one.readyAfter = max(one.readyAfter, time.Duration(p.InitialDelaySeconds)*time.Second)
		if port, asked := probedPort(c, p); asked && port != o.HTTP && port != o.TCP && port != o.Stream {
			one.never = fmt.Sprintf("readiness probe fails: nothing listens on port %d", port)
		}
	}
	return one, nil
}

// probedPort is the TCP port that a readiness probe would ask, 0 where that is no port. Probes by command or gRPC
// ask none: they count as succeeding.
func probedPort(c corev1.Container, p *corev1.Probe) (port uint16, asked bool) {
	var at intstr.IntOrString
	switch {
	case p.HTTPGet != nil:
		at = p.HTTPGet.Port
	case p.TCPSocket != nil:
		at = p.TCPSocket.Port
	default:
		return 0, false
	}
	number := int32(at.IntValue())
	if at.Type == intstr.String {
		for _, cp := range c.Ports {
			if cp.Name == at.StrVal {
				number = cp.ContainerPort
			}
		}
	}
	if number < 1 || number > 65535 {
		return 0, true
	}
	return uint16(number), true
}

// imageName is an image's name without registry docker.io or localhost, tag and digest.
func imageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		image = image[:i]
	}
	for _, registry := range []string{"docker.io/", "localhost/"} {
		image = strings.TrimPrefix(image, registry)
	}
	return image
}

// refusals lists what workload's error says.
func refusals(err error) []refusal {
	var one refusal
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []refusal
		for _, e := range joined.Unwrap() {
			all = append(all, refusals(e)...)
		}
		return all
	}
	if errors.As(err, &one) {
		return []refusal{one}
	}
	return nil
}
