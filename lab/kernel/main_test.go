package kernel

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain makes the test binary its own commands: a kernel runs this binary, first as init and then as the command.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if command := commands[os.Args[1]]; command != nil {
			os.Exit(command(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

var commands map[string]func([]string) int

func init() { // it refers to functions that refer to it
	commands = map[string]func([]string) int{
		InitVerb: func(args []string) int {
			fmt.Fprintln(os.Stderr, Init(args[0]))
			return 1
		},
		"talk":   talk,
		"sh":     shell,
		"wait":   waitForInterrupt,
		"ignore": ignoreInterrupts,
		"parent": parent,
	}
}

// talk writes to both outputs and ends with the status given.
func talk(args []string) int {
	lines, _ := strconv.Atoi(args[0])
	status, _ := strconv.Atoi(args[1])
	out := bufio.NewWriter(os.Stdout)
	for i := range lines {
		fmt.Fprintf(out, "line %d\tof \x00\x1b\xff\r\n", i)
	}
	_ = out.Flush()
	fmt.Fprintln(os.Stderr, "and this is the other one")
	return status
}

func shell(args []string) int {
	cmd := exec.Command("sh", "-c", strings.Join(args, " "))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode()
}

func waitForInterrupt([]string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Println("waiting")
	<-ctx.Done()
	fmt.Println("interrupted")
	return 7
}

func ignoreInterrupts([]string) int {
	signal.Ignore(os.Interrupt, unix.SIGTERM)
	fmt.Println("waiting")
	time.Sleep(time.Hour)
	return 0
}

// parent runs "wait" in a kernel, to be killed while it does.
func parent(args []string) int {
	k, err := Find(context.Background(), "")
	if err == nil {
		_, err = Run(context.Background(), Config{Kernel: k, Lab: args[0], StateDir: args[1], Args: []string{"wait"}, Stdout: os.Stdout, Stderr: os.Stderr})
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
