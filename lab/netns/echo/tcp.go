package echo

import "net"

// greet starts a connection: delay, failure, identifying line. It says whether the connection goes on.
func (s *Server) greet(c *net.TCPConn) bool {
	if !s.pause(s.opts.Delay) {
		return false
	}
	if s.fails() {
		_ = c.SetLinger(0) // close then resets
		return false
	}
	_, err := c.Write(append(s.identity(c.RemoteAddr().String()), '\n'))
	return err == nil
}

// identity is "<pod> <node> <client>".
func (s *Server) identity(client string) []byte {
	line := make([]byte, 0, len(s.opts.Pod)+len(s.opts.Node)+len(client)+8)
	line = append(line, s.opts.Pod...)
	line = append(line, ' ')
	line = append(line, s.opts.Node...)
	line = append(line, ' ')
	return append(line, client...)
}

// echo sends back what comes. A small buffer of our own rather than io.Copy, which would take a pipe for each of
// thousands of idle connections.
func (s *Server) echo(c *net.TCPConn) {
	if !s.greet(c) {
		return
	}
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if n > 0 {
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// stream sends until the client goes away.
func (s *Server) stream(c *net.TCPConn) {
	if !s.greet(c) {
		return
	}
	chunk := make([]byte, 128<<10)
	for i := range chunk {
		chunk[i] = 'a' + byte(i%26)
	}
	for {
		if _, err := c.Write(chunk); err != nil {
			return
		}
	}
}
