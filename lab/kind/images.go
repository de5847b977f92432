package kind

import "proxylab/lab/image"

// podImages are the images that pods of a lab are made of, with the verb of this program that each runs.
var podImages = map[string]string{
	"docker.io/proxylab/echo:latest":   "echo",
	"docker.io/proxylab/client:latest": "idle",
}

// writeImages writes an archive with them: from scratch, with this program as the only file.
func writeImages(executable, archive string) error {
	program, err := image.Self(executable)
	if err != nil {
		return err
	}
	var images []image.Image
	for tag, verb := range podImages {
		images = append(images, image.Image{Tag: tag, Entrypoint: []string{program.Path, verb}})
	}
	return image.Write(archive, []image.File{program}, images...)
}
