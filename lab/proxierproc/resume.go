package proxierproc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"proxylab/lab"
)

// Resume starts on a node what was started there last, as a file remembers it that is gone once that was stopped, or else
// what the lab was asked for; nil: nothing. Where a proxier runs it does nothing.
func Resume(ctx context.Context, l lab.Lab, node, file string, asked *lab.ProxierSpec) error {
	is, err := l.Proxier(ctx, node)
	if err != nil || is != nil {
		return err
	}
	spec, err := remembered(file)
	if err != nil {
		return err
	}
	if spec == nil {
		spec = asked
	}
	if spec == nil {
		return nil
	}
	return l.StartProxier(ctx, node, *spec)
}

func remembered(file string) (*lab.ProxierSpec, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var spec lab.ProxierSpec
	if err := json.Unmarshal(b, &spec); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &spec, nil
}
