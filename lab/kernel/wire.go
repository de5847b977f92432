package kernel

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"proxylab/lab"
)

// What the two sides say to each other. The serial lines inside are, in this order, the descriptors from 3 on outside.
const (
	outLine  = 0 // the command's standard output
	errLine  = 1 // its standard error
	talkLine = 2 // messages, one JSON line each: hello from inside to outside, orders the other way
)

// InitVerb is the hidden command that this program is as the first process of a kernel: InitVerb DIR.
const InitVerb = "kernel-init"

// Inside says that this process runs inside a kernel that Run started.
func Inside() bool { return os.Getenv(lab.KernelVar) != "" }

// job is what the first process is to do. It is a file in the kernel's directory.
type job struct {
	Args []string `json:"args"` // of this program
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
}

func jobPath(dir string) string { return filepath.Join(dir, "job.json") }

func (j job) save(dir string) error {
	b, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return os.WriteFile(jobPath(dir), b, 0o600)
}

func loadJob(dir string) (j job, err error) {
	b, err := os.ReadFile(jobPath(dir))
	if err != nil {
		return j, err
	}
	if err := json.Unmarshal(b, &j); err != nil {
		return j, fmt.Errorf("%s: %w", jobPath(dir), err)
	}
	return j, nil
}

// report is a message from inside. Exactly one field is set.
type report struct {
	Started bool   `json:"started,omitempty"` // the command runs
	Alive   bool   `json:"alive,omitempty"`   // it still does; said every aliveEvery
	Status  *int   `json:"status,omitempty"`  // it ended, with this exit status, and all its output is out
	Error   string `json:"error,omitempty"`   // it could not be started
}

// aliveEvery is how often the first process is heard of.
const aliveEvery = 5 * time.Second

// order is a message from outside.
type order struct {
	Interrupt bool `json:"interrupt,omitempty"` // to the command, as Ctrl-C
}
