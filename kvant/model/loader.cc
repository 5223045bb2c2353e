#include "kvant/model/loader.h"

#include <new>
#include <utility>

#include "kvant/model/decoder.h"

namespace kvant::model {

NamedResult<std::shared_ptr<const LoadedModel>> load_model(const std::string& directory,
                                                           FileAccess access) {
  try {
    auto model = std::make_shared<LoadedModel>();
    model->config = KVANT_TRY(read_config(directory));
    WeightSet files = KVANT_TRY(WeightSet::open(directory, access));
    model->weights = std::make_shared<const WeightSet>(std::move(files));
    DecoderWeights weights = KVANT_TRY(load_lfm2_weights(model->config, model->weights));
    model->network = KVANT_TRY(Decoder::create(model->config, std::move(weights)));
    return std::shared_ptr<const LoadedModel>(std::move(model));
  } catch (const std::bad_alloc&) {
    return NamedError(Error{.code = ErrorCode::kOutOfMemory}, directory);
  }
}

}  // namespace kvant::model
