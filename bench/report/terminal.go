package report

import (
	"os"

	"golang.org/x/sys/unix"
)

// Terminal says how a table should look on f: whether colours are wanted there (it is a terminal that has them, and
// the user did not set NO_COLOR, see no-color.org), and how wide it is (0: not known, or no terminal).
func Terminal(f *os.File) TableOptions {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return TableOptions{}
	}
	term := os.Getenv("TERM")
	return TableOptions{
		Width: int(size.Col),
		Color: os.Getenv("NO_COLOR") == "" && term != "" && term != "dumb",
	}
}
