package main_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// lbaas ARG... runs "proxylab lbaas" until the script ends, and sets URL to where it is.
func runLBaaS(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command(binary, append([]string{"lbaas", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Dir = ts.Getenv("WORK")
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	found, log := make(chan string, 1), ""
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		at := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			log += lines.Text() + "\n"
			if m := at.FindString(lines.Text()); m != "" {
				select {
				case found <- m:
				default: // it says so twice
				}
			}
		}
	}()
	ts.Defer(func() {
		ts.Check(cmd.Process.Signal(os.Interrupt))
		<-ended
		err := cmd.Wait()
		ts.Logf("proxylab lbaas said:\n%s", log)
		ts.Check(err)
	})
	select {
	case url := <-found:
		ts.Setenv("URL", url)
	case <-ended:
		ts.Fatalf("proxylab lbaas has ended: %s", log)
	case <-time.After(time.Minute):
		ts.Fatalf("proxylab lbaas does not listen")
	}
}

// member VAR runs a server at 127.0.0.1 that says its name, and sets VAR to its port.
func runMember(ts *testscript.TestScript, _ bool, args []string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "this is "+args[0]) }))
	ts.Defer(s.Close)
	ts.Setenv(args[0], fmt.Sprint(s.Listener.Addr().(*net.TCPAddr).Port))
}

// freeport VAR sets VAR to a port that nobody listens at.
func freePort(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", ":0")
	ts.Check(err)
	ts.Check(l.Close())
	ts.Setenv(args[0], fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
}

// commands FILE has the OpenStack client do the commands of a file, a line each, with the values of variables in them. None may fail.
// The port of a balancer and the rule of a policy that it shows are VIP_PORT and RULE from then on.
func openstackCommands(ts *testscript.TestScript, _ bool, args []string) {
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	cmd := exec.Command("openstack")
	cmd.Dir = ts.Getenv("WORK")
	for _, name := range []string{"PATH", "HOME", "OS_AUTH_URL", "OS_USERNAME", "OS_PASSWORD", "OS_PROJECT_NAME", "OS_USER_DOMAIN_ID",
		"OS_PROJECT_DOMAIN_ID", "OS_IDENTITY_API_VERSION", "OS_AUTH_TYPE", "OS_ENDPOINT", "PYTHONPATH"} {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &stdout, &stderr
	err := cmd.Run()
	fmt.Fprint(ts.Stdout(), stdout.String())
	fmt.Fprint(ts.Stderr(), stderr.String())
	ts.Check(err)
	for field, name := range map[string]string{"vip_port_id": "VIP_PORT", "rules": "RULE"} {
		if m := regexp.MustCompile(`(?m)^` + field + `="(.+)"$`).FindStringSubmatch(stdout.String()); m != nil {
			ts.Setenv(name, m[1])
		}
	}
	if stderr.Len() > 0 { // the only sign of a command that has failed
		ts.Fatalf("the client complains")
	}
}

// answers URL TEXT... asks until all of the texts were the answer.
func answers(ts *testscript.TestScript, _ bool, args []string) {
	missing := map[string]bool{}
	for _, text := range args[1:] {
		missing[text+"\n"] = true
	}
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var last string
	for deadline := time.Now().Add(time.Minute); len(missing) > 0; {
		resp, err := client.Get(args[0])
		if err == nil {
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			last = string(text)
			delete(missing, last)
		} else {
			last = err.Error()
			time.Sleep(20 * time.Millisecond)
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s never said %v; at last %s", args[0], missing, last)
		}
	}
}
