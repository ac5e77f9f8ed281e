package datagram

import "errors"

func (s *native) paceByKernel() (string, error) { return "", errors.ErrUnsupported }
