// Package echo is the workload of the embedded lab: servers that say which pod answered and whom it saw.
//
//   - HTTP: any path answers 200 with a JSON object (pod, node, namespace, client, server, proto) and the header
//     X-Proxylab-Pod. /healthz answers 503 while the server is not ready.
//   - TCP: one line "<pod> <node> <client>\n" on accept, then every byte comes back.
//   - UDP: each datagram is answered with "<pod> <node> <client> " and its own payload, from the address it was sent to.
//   - STREAM: the same line as TCP, then bytes as fast as the client reads them, until it closes.
package echo

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PodHeader is the HTTP response header that names the pod.
const PodHeader = "X-Proxylab-Pod"

// maxSize bounds Options.Size: a body is held in memory once per server.
const maxSize = 64 << 20

// Options says who answers, where, and how badly. The zero value listens nowhere.
type Options struct {
	Pod, Node, Namespace string

	HTTP, TCP, UDP, Stream uint16 // ports; 0: off

	// Delay goes before each HTTP answer, each UDP answer and the first line of a TCP or STREAM connection.
	Delay time.Duration
	// Fail is the share (0..1) of HTTP requests answered 500, of connections reset, of datagrams not answered.
	Fail float64
	// SlowStart is how long after its start the server is not ready. It answers nevertheless.
	SlowStart time.Duration
	// NotReady servers never become ready. They answer nevertheless.
	NotReady bool
	// Size is the least number of bytes of an HTTP body, which is padded to exactly that if it is shorter.
	Size int
	// Close ends each HTTP connection with its first answer.
	Close bool
}

// argument is one of the arguments that Parse knows.
type argument struct {
	name string
	bare bool // may come without a value
	set  func(o *Options, value string) error
}

func arguments() []argument {
	port := func(field func(*Options) *uint16) func(*Options, string) error {
		return func(o *Options, v string) error {
			n, err := strconv.ParseUint(v, 10, 16)
			if err != nil {
				return errors.New("want a port number, 0 to 65535 (0: off)")
			}
			*field(o) = uint16(n)
			return nil
		}
	}
	duration := func(field func(*Options) *time.Duration) func(*Options, string) error {
		return func(o *Options, v string) error {
			d, err := time.ParseDuration(v)
			if err != nil || d < 0 {
				return errors.New("want a duration such as 20ms or 5s")
			}
			*field(o) = d
			return nil
		}
	}
	boolean := func(field func(*Options) *bool) func(*Options, string) error {
		return func(o *Options, v string) error {
			b, err := strconv.ParseBool(v)
			if err != nil {
				return errors.New("want true or false")
			}
			*field(o) = b
			return nil
		}
	}
	return []argument{
		{"http", false, port(func(o *Options) *uint16 { return &o.HTTP })},
		{"tcp", false, port(func(o *Options) *uint16 { return &o.TCP })},
		{"udp", false, port(func(o *Options) *uint16 { return &o.UDP })},
		{"stream", false, port(func(o *Options) *uint16 { return &o.Stream })},
		{"delay", false, duration(func(o *Options) *time.Duration { return &o.Delay })},
		{"slow-start", false, duration(func(o *Options) *time.Duration { return &o.SlowStart })},
		{"fail", false, setFail},
		{"size", false, setSize},
		{"not-ready", true, boolean(func(o *Options) *bool { return &o.NotReady })},
		{"close", true, boolean(func(o *Options) *bool { return &o.Close })},
	}
}

func setFail(o *Options, v string) error {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f >= 0 && f <= 1) { // so written to refuse NaN
		return errors.New("want a share from 0 to 1")
	}
	o.Fail = f
	return nil
}

func setSize(o *Options, v string) error {
	number := strings.TrimRight(v, "BKMGikmg")
	unit, known := map[string]float64{
		"": 1, "B": 1, "k": 1e3, "kB": 1e3, "Ki": 1 << 10, "KiB": 1 << 10, "M": 1e6, "MB": 1e6, "Mi": 1 << 20, "MiB": 1 << 20,
	}[v[len(number):]]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !known || !(n >= 0 && n*unit <= maxSize) {
		return errors.New("want a size from 0 to 64MiB, such as 64KiB")
	}
	o.Size = int(n * unit)
	return nil
}

// Parse reads the arguments of a proxylab/echo container, each as --name=value; what is not given has its default:
// ports 8080 (HTTP), 8081 (TCP), 8082 (UDP), 8083 (STREAM), and good behaviour. The error names every mistake.
func Parse(args []string) (Options, error) {
	o := Options{HTTP: 8080, TCP: 8081, UDP: 8082, Stream: 8083}
	known := arguments()
	var errs []error
	for _, arg := range args {
		if err := parseOne(&o, known, arg); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		errs = append(errs, o.samePorts()...)
	}
	if err := errors.Join(errs...); err != nil {
		return Options{}, err
	}
	return o, nil
}

func parseOne(o *Options, known []argument, arg string) error {
	name, value, hasValue := strings.Cut(arg, "=")
	short, isFlag := strings.CutPrefix(name, "--")
	i := slices.IndexFunc(known, func(a argument) bool { return isFlag && a.name == short })
	if i < 0 {
		names := make([]string, len(known))
		for j, a := range known {
			names[j] = "--" + a.name
		}
		return fmt.Errorf("unknown argument %q: known are %s", arg, strings.Join(names, ", "))
	}
	if !hasValue {
		if !known[i].bare {
			return fmt.Errorf("argument %q needs a value, as in %s=VALUE", arg, name)
		}
		value = "true"
	}
	if err := known[i].set(o, value); err != nil {
		return fmt.Errorf("argument %q: %w", arg, err)
	}
	return nil
}

// samePorts finds TCP ports that two servers would want.
func (o Options) samePorts() (errs []error) {
	users := map[uint16]string{}
	for _, p := range []struct {
		name string
		port uint16
	}{{"--http", o.HTTP}, {"--tcp", o.TCP}, {"--stream", o.Stream}} {
		if other := users[p.port]; p.port != 0 && other != "" {
			errs = append(errs, fmt.Errorf("%s and %s both ask for TCP port %d", other, p.name, p.port))
		}
		users[p.port] = p.name
	}
	return errs
}
