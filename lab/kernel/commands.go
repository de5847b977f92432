package kernel

import "github.com/spf13/cobra"

// Commands returns the hidden command that the first process of a kernel is. Run expects it in the binary.
func Commands() []*cobra.Command {
	return []*cobra.Command{{
		Use: InitVerb + " DIR", Short: "Be the first process of a kernel", Hidden: true, Args: cobra.MinimumNArgs(1), // a kernel adds words of its own
		RunE: func(_ *cobra.Command, args []string) error { return Init(args[0]) },
	}}
}
