// What a context tells about every node, and to whom.

#include "observer.h"

#include "compat.h"

#include <exception>

namespace lockstep {

bool observe_callback(ggml_tensor * t, bool ask, void * data) {
    auto & observer = *static_cast<Observer *>(data);
    if (!observer.error.empty()) {
        return false;
    }
    if (!compat::is_evaluated(t, 0)) {
        return true;
    }
    try {
        if (ask) {
            if (observer.capture) {
                observer.capture->before(t);
            }
            if (observer.reference) {
                observer.reference->before(t);
            }
        } else {
            if (observer.reference) {
                observer.reference->after(t);
            }
            if (observer.capture) {
                observer.capture->after(t);
            }
        }
    } catch (const std::exception & error) {
        observer.error = error.what();
        return false;
    }
    return true;
}

}  // namespace lockstep
