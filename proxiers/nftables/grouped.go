package nftables

import (
	"context"
	"strings"

	"sigs.k8s.io/knftables"
)

// groupFrom is the number of commands from which on they are worth grouping.
const groupFrom = 1000

// groupMax bounds the elements of one command.
const groupMax = 500

// grouped gives nft the elements of large transactions many to a command. knftables writes a command for each, and most of
// the time that nft takes is the command's, not the element's.
type grouped struct{ knftables.Interface }

// Run implements knftables.Interface.
func (g grouped) Run(ctx context.Context, tx *knftables.Transaction) error {
	if tx.NumOperations() < groupFrom {
		return g.Interface.Run(ctx, tx)
	}
	text := tx.String()
	if strings.Contains(text, "\n# ERROR") {
		return g.Interface.Run(ctx, tx) // which returns the error
	}
	_, err := run(ctx, groupText(text), "-f", "-")
	return err
}

// groupText joins neighbouring commands "add element FAMILY TABLE STORE { ELEMENT }" for the same store.
func groupText(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	open, n := "", 0
	for line := range strings.Lines(text) {
		head, element, found := strings.Cut(line, " { ")
		if !found || !strings.HasPrefix(line, "add element ") {
			head = ""
		}
		if open != "" && (head != open || n == groupMax) {
			out.WriteString(" }\n")
			open = ""
		}
		switch {
		case head == "":
			out.WriteString(line)
			continue
		case open == "":
			out.WriteString(head + " { ")
			open, n = head, 0
		default:
			out.WriteString(", ")
		}
		out.WriteString(strings.TrimSuffix(element, " }\n"))
		n++
	}
	if open != "" {
		out.WriteString(" }\n")
	}
	return out.String()
}
