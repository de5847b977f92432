package load

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
)

// Ask makes one request on a connection or UDP socket of its own, of kind "http", "connect" or "udp", and returns
// the pod that answered. It comes from a source port, 0 for any. It ends with ctx. ErrorKind says what its errors mean.
func Ask(ctx context.Context, kind, target string, port int) (pod string, err error) {
	switch kind {
	case HTTP:
		return askHTTP(ctx, target, port)
	case Connect:
		c, err := open(ctx, target, port, nil)
		if err != nil {
			return "", err
		}
		_ = c.Close()
		return c.pod, nil
	case UDP:
		pod, _, err := exchange(ctx, target, port, newMark().payload(0))
		return pod, err
	}
	return "", fmt.Errorf("kind is %q: it must be http, connect or udp", kind)
}

// askHTTP does without net/http's client, which costs several times as much.
func askHTTP(ctx context.Context, target string, port int) (pod string, err error) {
	c, err := dial(ctx, "tcp", target, port, nil)
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer interrupt(ctx, c)()
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", target); err != nil {
		return "", err
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	pod = response.Header.Get(podHeader)
	switch {
	case response.StatusCode/100 != 2:
		return pod, statusError(response.StatusCode)
	case pod == "":
		return "", &malformedError{"an HTTP answer without the header " + podHeader}
	}
	return pod, nil
}
