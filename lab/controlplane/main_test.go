package controlplane

import (
	"fmt"
	"os"
	"testing"

	"github.com/spf13/cobra"
)

// TestMain makes the test binary its own components: what Start runs is this binary again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "component" {
		root := &cobra.Command{Use: "proxylab"}
		root.AddCommand(Commands()...)
		if err := root.Execute(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
