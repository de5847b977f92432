package kernel

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	k, err := Find(t.Context(), os.Getenv("UMLK"))
	if err != nil {
		t.Skip(err)
	}
	var out, errs bytes.Buffer
	began := time.Now()
	status, err := Run(context.Background(), Config{Kernel: k, Lab: "smoke", Args: []string{"sh", os.Getenv("SH")}, Stdout: &out, Stderr: &errs})
	fmt.Println(status, err, time.Since(began))
	fmt.Println(out.String(), errs.String())
}
